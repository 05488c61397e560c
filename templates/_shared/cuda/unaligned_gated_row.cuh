// Rows as those of gated_row.cuh whose length is no multiple of a vector.
// Owns: what belongs to a vector of results, wherever it lies. Never: an activation, a kernel.
//
// UNROLL: vectors of results that a thread computes. STREAM: as in vector.cuh.

#pragma once

#include "gated_row.cuh"

namespace gated_row {

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

}  // namespace gated_row
