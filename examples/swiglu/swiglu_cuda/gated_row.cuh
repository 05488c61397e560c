// Rows of which one half is activated and multiplied with the other half, and the gradients of their results.
// Owns: which vectors belong together. Never: an activation, a kernel.
//
// UNROLL: vectors of results that a thread computes. STREAM: as in vector.cuh.

#pragma once

#include "vector.cuh"

namespace gated_row {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// kGatesFirst: the activated half of a row comes first. Vectors of results are counted through all rows, so that no thread is
// idle at the end of one. Index holds as many elements as the input has. `activated` makes a gate of an element.
template <typename T, int kBlock, int kElements, bool kGatesFirst, typename Index, typename Activation>
__device__ __forceinline__ void
results(T* out, const T* input, Index count, Index length, const Activation& activated) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(out);
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
    Unit gates[kUnroll];
    Unit ups[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
            // `place` is of row place / length, before which lie twice as many.
            const Index first = place + place / length * length;
            (kGatesFirst ? gates : ups)[i].bits = load(from + first);
            (kGatesFirst ? ups : gates)[i].bits = load(from + first + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
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

// The kElements elements from `from` on, wherever they lie, shifted out of the vectors of memory that hold them. Only vectors
// with one of these elements are read. The vectors of neighboring threads overlap, so that the second one is in the cache.
template <typename T, int kElements>
__device__ __forceinline__ Vector<T, kElements> across(const T* from) {
    using Bits = typename Vector<T, kElements>::Bits;
    constexpr int kWords = sizeof(Bits) / 4;
    static_assert(kWords > 0);
    const uintptr_t address = reinterpret_cast<uintptr_t>(from);
    const unsigned shift = address % sizeof(Bits);
    const Bits* const base = reinterpret_cast<const Bits*>(address - shift);
    const Bits low = base[0];
    const Bits high = shift == 0 ? low : base[1];
    uint32_t words[2 * kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        words[i] = word(low, i);
        words[kWords + i] = word(high, i);
    }
#pragma unroll
    for (int step = kWords / 2; step > 0; step /= 2) {
        if (shift & (4 * step)) {
#pragma unroll
            for (int i = 0; i < 2 * kWords - step; ++i) {
                words[i] = words[i + step];
            }
        }
    }
    Vector<T, kElements> found;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        // Elements of 4 bytes begin with a word.
        const uint32_t shifted = sizeof(T) == 4 ? words[i] : __funnelshift_r(words[i], words[i + 1], shift % 4 * 8);
        set_word(found.bits, i, shifted);
    }
    return found;
}

// As `results`, for rows of any length: `count` are elements of results, and a row has `length` of them. Results are written
// in vectors, counted through all rows as there. What belongs to one of these lies anywhere in the input.
template <typename T, int kBlock, int kElements, bool kGatesFirst, typename Index, typename Activation>
__device__ __forceinline__ void
unaligned_results(T* out, const T* input, Index count, Index length, const Activation& activated) {
    using Unit = Vector<T, kElements>;
    Unit* const to = reinterpret_cast<Unit*>(out);
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
    Unit gates[kUnroll];
    Unit ups[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index first = (start + i * kBlock) * kElements;
        if (first >= count) {
            continue;
        }
        const Index row = first / length;
        const T* const from = input + (first + row * length);
        if (first - row * length + kElements <= length) {
            (kGatesFirst ? gates : ups)[i] = across<T, kElements>(from);
            (kGatesFirst ? ups : gates)[i] = across<T, kElements>(from + length);
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
    for (int i = 0; i < kUnroll; ++i) {
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
template <typename T, int kElements, bool kGatesFirst, typename Index, typename Activation>
__device__ __forceinline__ void
gradients(T* grad_input, const T* grad_out, const T* input, Index count, Index length, const Activation& activated) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const gradients = reinterpret_cast<const Bits*>(grad_out);
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(grad_input);
    const int step = blockDim.x;
    const Index start = static_cast<Index>(blockIdx.x) * (step * kUnroll) + threadIdx.x;
    Unit results[kUnroll];
    Unit gates[kUnroll];
    Unit ups[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
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
    for (int i = 0; i < kUnroll; ++i) {
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
