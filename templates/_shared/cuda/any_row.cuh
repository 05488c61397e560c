// Rows of any length, in vectors: those of memory that a row lies in, of which the first and the last also hold what is
// beside it.
// Owns: which elements of a vector are of a row. Never: a kernel.

#pragma once

#include "vector.cuh"

namespace any_row {

using namespace vector;

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

// The vectors that a row lies in.
template <typename T, int kElements>
struct Window {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    // The first element of the first vector, and how many are before the row.
    int64_t base;
    int before;
    int hidden;
    int vectors;

    __device__ __forceinline__ Window(int64_t row, int hidden) : hidden(hidden) {
        const int64_t first = row * hidden;
        before = static_cast<int>(first % kElements);
        base = first - before;
        vectors = (before + hidden + kElements - 1) / kElements;
    }
    // The column of the first element of a vector.
    __device__ __forceinline__ int column(int vector) const { return vector * kElements - before; }
    __device__ __forceinline__ bool has(int column) const { return column >= 0 && column < hidden; }
    __device__ __forceinline__ bool is_whole(int column) const { return column >= 0 && column + kElements <= hidden; }

    // A vector; elements beside the row are `other`.
    __device__ __forceinline__ Unit read(const T* from, int vector, float other) const {
        Unit unit;
        const int first = column(vector);
        if (is_whole(first)) {
            unit.bits = load(reinterpret_cast<const Bits*>(from + base) + vector);
        } else {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                if (has(first + j)) {
                    unit.elements[j] = from[base + vector * kElements + j];
                } else {
                    unit.set(j, other);
                }
            }
        }
        return unit;
    }
    // What belongs to the elements of a vector, of a tensor with an element for each column.
    __device__ __forceinline__ Unit beside(const T* from, int vector) const {
        const int first = column(vector);
        if (is_whole(first)) {
            return across<T, kElements>(from + first);
        }
        Unit unit;
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            unit.elements[j] = from[has(first + j) ? first + j : 0];
        }
        return unit;
    }
    __device__ __forceinline__ void write(T* to, int vector, const Unit& unit) const {
        const int first = column(vector);
        if (is_whole(first)) {
            store(reinterpret_cast<Bits*>(to + base) + vector, unit.bits);
        } else {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                if (has(first + j)) {
                    to[base + vector * kElements + j] = unit.elements[j];
                }
            }
        }
    }
};

}  // namespace any_row
