// Rows of which one half is activated and multiplied with the other half, and the gradients of their results.
// Owns: which vectors belong together. Never: an activation, a kernel.
//
// STREAM: as in vector.cuh.

#pragma once

#include "covered_slice.cuh"

namespace gated_row {

using namespace vector;

// kGatesFirst: the activated half of a row comes first. A thread computes kUnits vectors of results. They are counted through
// all rows, so that no thread is idle at the end of one. Index holds as many elements as the input has. `activated` makes a
// gate of an element.
template <typename T, int kBlock, int kElements, int kUnits, bool kGatesFirst, typename Index, typename Activation>
__device__ __forceinline__ void
results(T* out, const T* input, Index count, Index length, const Activation& activated) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(out);
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnits) + threadIdx.x;
    Unit gates[kUnits];
    Unit ups[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
            // `place` is of row place / length, before which lie twice as many.
            const Index first = place + place / length * length;
            (kGatesFirst ? gates : ups)[i].bits = load(from + first);
            (kGatesFirst ? ups : gates)[i].bits = load(from + first + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                gates[i].set(j, activated(gates[i].get(j)) * ups[i].get(j));
            }
            store(to + place, gates[i].bits);
        }
    }
}

// As `results`, for rows that blocks have parts of: those in x are of one row, so that none is divided by its length.
template <typename T, int kBlock, int kElements, int kUnits, bool kGatesFirst, typename Activation>
__device__ __forceinline__ void results_of_row(T* out, const T* input, int length, const Activation& activated) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int64_t before = static_cast<int64_t>(blockIdx.y) * length;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + 2 * before;
    Bits* const to = reinterpret_cast<Bits*>(out) + before;
    const int start = blockIdx.x * (kBlock * kUnits) + threadIdx.x;
    Unit gates[kUnits];
    Unit ups[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = start + i * kBlock;
        if (place < length) {
            (kGatesFirst ? gates : ups)[i].bits = load(from + place);
            (kGatesFirst ? ups : gates)[i].bits = load(from + place + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = start + i * kBlock;
        if (place < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                gates[i].set(j, activated(gates[i].get(j)) * ups[i].get(j));
            }
            store(to + place, gates[i].bits);
        }
    }
}

// As `results`, for rows of any length: `count` are elements of results, and a row has `length` of them. Results are written
// in vectors, counted through all rows as there. What belongs to one of these lies anywhere in the input.
template <typename T, int kBlock, int kElements, int kUnits, bool kGatesFirst, typename Index, typename Activation>
__device__ __forceinline__ void
unaligned_results(T* out, const T* input, Index count, Index length, const Activation& activated) {
    using Unit = Vector<T, kElements>;
    Unit* const to = reinterpret_cast<Unit*>(out);
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnits) + threadIdx.x;
    Unit gates[kUnits];
    Unit ups[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const Index first = (start + i * kBlock) * kElements;
        if (first >= count) {
            continue;
        }
        const Index row = first / length;
        const T* const from = input + (first + row * length);
        if (first - row * length + kElements <= length) {
            (kGatesFirst ? gates : ups)[i] = covered_slice::across<T, kElements>(from);
            (kGatesFirst ? ups : gates)[i] = covered_slice::across<T, kElements>(from + length);
        } else {
            // The end of a row, behind which another one may begin.
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const Index place = first + j < count ? first + j : first;
                const T* const element = input + (place + place / length * length);
                (kGatesFirst ? gates : ups)[i].elements[j] = element[0];
                (kGatesFirst ? ups : gates)[i].elements[j] = element[length];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const Index place = start + i * kBlock;
        const Index first = place * kElements;
        if (first >= count) {
            continue;
        }
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            gates[i].set(j, activated(gates[i].get(j)) * ups[i].get(j));
        }
        if (first + kElements <= count) {
            store(&to[place].bits, gates[i].bits);
        } else {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                if (first + j < count) {
                    out[first + j] = gates[i].elements[j];
                }
            }
        }
    }
}

// An activation and its derivative.
struct Activated {
    float value;
    float slope;
};

// value * sigmoid(value) and its derivative. Where the sigmoid is 0 or 1, its slope counts as zero, however large the value is.
template <typename T>
__device__ __forceinline__ Activated silu(float value) {
    // Of the sigmoid: the share that is a half at least, and the rest. Neither is a difference, no power overflows.
    const float power = exponential<T>(-fabsf(value));
    const float most = quotient<T>(1.0f, 1.0f + power);
    const float least = power * most;
    const float share = value >= 0.0f ? most : least;
    const float slope = most * least;
    return {value * share, slope > 0.0f ? share + value * slope : share};
}

// The gradient of the input, of which the gates and what they are multiplied with lie as there. Vectors are counted as those
// of results. `activated` makes an Activated of an element.
template <typename T, int kElements, int kUnits, bool kGatesFirst, typename Index, typename Activation>
__device__ __forceinline__ void
gradients(T* grad_input, const T* grad_out, const T* input, Index count, Index length, const Activation& activated) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const gradients = reinterpret_cast<const Bits*>(grad_out);
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(grad_input);
    const int step = blockDim.x;
    const Index start = static_cast<Index>(blockIdx.x) * (step * kUnits) + threadIdx.x;
    Unit results[kUnits];
    Unit gates[kUnits];
    Unit ups[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const Index place = start + i * step;
        if (place < count) {
            // `place` is of row place / length, before which lie twice as many.
            const Index first = place + place / length * length;
            results[i].bits = load(gradients + place);
            (kGatesFirst ? gates : ups)[i].bits = load(from + first);
            (kGatesFirst ? ups : gates)[i].bits = load(from + first + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const Index place = start + i * step;
        if (place < count) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float result = results[i].get(j);
                const float up = ups[i].get(j);
                const Activated gate = activated(gates[i].get(j));
                gates[i].set(j, result * up * gate.slope);
                ups[i].set(j, result * gate.value);
            }
            const Index first = place + place / length * length;
            store(to + first, (kGatesFirst ? gates : ups)[i].bits);
            store(to + first + length, (kGatesFirst ? ups : gates)[i].bits);
        }
    }
}

}  // namespace gated_row
