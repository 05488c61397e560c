// Rows of any length that are normalised, in vectors that begin where memory has them.
// Owns: the way through such a row. Never: a kernel; says what becomes of an element.

#pragma once

#include "covered_slice.cuh"

namespace shifted_row {

using namespace vector;

// Whether registers are left for what rows have in common: it is then on the way while a row is summed.
template <int kUnits>
constexpr bool kEarly = kUnits <= 2;

// Normalises the block's row, of which each thread holds kUnits vectors, at most. Deviations are squared once the mean is
// known. `rule` makes a result of a value of mean 0 and variance 1, and of what `factors` and `terms` have at its place.
// These begin anywhere. kBiased: whether there are terms; 0 where there are none. A block has kMost threads, at most.
template <int kMost, int kUnits, bool kBiased, typename T, typename Rule>
__device__ __forceinline__ void
normalise(T* out, const T* input, const T* factors, const T* terms, int hidden, float eps, const Rule& rule) {
    using Covered = covered_slice::Slice<T, false, int>;
    using Unit = typename Covered::Unit;
    constexpr int kElements = Covered::kElements;
    const Covered row(static_cast<int64_t>(blockIdx.x) * hidden, hidden);
    const int length = row.vectors();
    const int lanes = static_cast<int>(blockDim.x);
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            held[i] = row.read(input, place, false);
        }
    }
    Unit by[kUnits];
    Unit plus[kUnits];
    if constexpr (kEarly<kUnits>) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = threadIdx.x + i * lanes;
            if (place < length) {
                by[i] = row.beside(factors, place);
                if constexpr (kBiased) {
                    plus[i] = row.beside(terms, place);
                }
            }
        }
    }
    const float part = 1.0f / hidden;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (threadIdx.x + i * lanes < length) {
            sum += held[i].sum();
            forget(held[i].bits);
        }
    }
    const float mean = row_sum<kMost, 1, 0>(sum) * part;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            squares += row.squares(held[i], place, mean);
            forget(held[i].bits);
        }
    }
    const float factor = rsqrtf(row_sum<kMost, 1, 1>(squares) * part + eps);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            if constexpr (!kEarly<kUnits>) {
                by[i] = row.beside(factors, place);
                if constexpr (kBiased) {
                    plus[i] = row.beside(terms, place);
                }
            }
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = (held[i].get(j) - mean) * factor;
                held[i].set(j, rule(value, by[i].get(j), kBiased ? plus[i].get(j) : 0.0f));
            }
            row.write(out, place, held[i]);
        }
    }
}

}  // namespace shifted_row
