// Gradients of a row whose results are known: for softmax and its logarithm.
// Owns: the kernels, for any `Rule`. Never: chooses among them; [launch] does.
//
// A `Rule` says what is summed over a row, `term(gradient, result)`, and what an element becomes with that sum,
// `finish(gradient, result, sum)`. UNROLL: how many vectors of each input a thread has in flight in a row that is read
// twice.

#pragma once

#include "vector.cuh"

namespace weighted {

using namespace vector;

// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

template <typename Rule, typename Unit, int kElements>
__device__ __forceinline__ float term_of(const Unit& gradient, const Unit& result) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sum += Rule::term(gradient.get(j), result.get(j));
    }
    return sum;
}

template <typename Rule, typename Unit, int kElements>
__device__ __forceinline__ Unit finished(const Unit& gradient, const Unit& result, float sum) {
    Unit unit;
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        unit.set(j, Rule::finish(gradient.get(j), result.get(j), sum));
    }
    return unit;
}

// Rows that their threads hold, kUnits vectors of each input a thread. kLanes threads have a row, and a block as many
// rows as it has room for; with 0, the block has one.
template <typename Rule, typename T, int kElements, int kUnits, int kLanes>
__device__ __forceinline__ void held(
    T* grad_input, const T* grad_out, const T* out, int64_t rows, int hidden, float* memory) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int lanes = kLanes > 0 ? kLanes : blockDim.x;
    const int64_t row =
        kLanes > 0 ? static_cast<int64_t>(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes : blockIdx.x;
    const int lane = kLanes > 0 ? threadIdx.x % lanes : threadIdx.x;
    const int length = row < rows ? hidden / kElements : 0;
    const Bits* const gradients = reinterpret_cast<const Bits*>(grad_out) + row * length;
    const Bits* const results = reinterpret_cast<const Bits*>(out) + row * length;
    Unit gradient[kUnits];
    Unit result[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            gradient[i].bits = load(gradients + place);
            result[i].bits = load(results + place);
        }
    }
    float sums[1] = {0.0f};
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
            sums[0] += term_of<Rule, Unit, kElements>(gradient[i], result[i]);
            forget(gradient[i].bits);
            forget(result[i].bits);
        }
    }
    row_sums<kLanes>(sums, memory);
    Bits* const to = reinterpret_cast<Bits*>(grad_input) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            store(to + place, finished<Rule, Unit, kElements>(gradient[i], result[i], sums[0]).bits);
        }
    }
}

// Any row, by one block: once for its sum, once more for the results.
template <typename Rule, typename T, int kElements>
__device__ __forceinline__ void read_twice(
    T* grad_input, const T* grad_out, const T* out, int64_t hidden, float* memory) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Slice<kElements> slice(blockIdx.x * hidden, hidden);
    const Bits* const gradients = reinterpret_cast<const Bits*>(grad_out + slice.aligned());
    const Bits* const results = reinterpret_cast<const Bits*>(out + slice.aligned());
    Bits* const to = reinterpret_cast<Bits*>(grad_input + slice.aligned());
    const int step = blockDim.x;
    float sums[1] = {0.0f};
    for (int64_t start = threadIdx.x; start < slice.vectors; start += step * kUnroll) {
        Unit gradient[kUnroll];
        Unit result[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * step < slice.vectors) {
                gradient[i].bits = gradients[start + i * step];
                result[i].bits = results[start + i * step];
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * step < slice.vectors) {
                sums[0] += term_of<Rule, Unit, kElements>(gradient[i], result[i]);
            }
        }
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        sums[0] += Rule::term(to_float(grad_out[single]), to_float(out[single]));
    }
    row_sums<0>(sums, memory);
    for (int64_t start = threadIdx.x; start < slice.vectors; start += step * kUnroll) {
        Unit gradient[kUnroll];
        Unit result[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * step < slice.vectors) {
                gradient[i].bits = load(gradients + start + i * step);
                result[i].bits = load(results + start + i * step);
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * step < slice.vectors) {
                const Unit unit = finished<Rule, Unit, kElements>(gradient[i], result[i], sums[0]);
                store(to + start + i * step, unit.bits);
            }
        }
    }
    if (single >= 0) {
        from_float(Rule::finish(to_float(grad_out[single]), to_float(out[single]), sums[0]), grad_input[single]);
    }
}

}  // namespace weighted
