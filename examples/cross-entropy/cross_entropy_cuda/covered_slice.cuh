// Elements that lie one after the other, covered by whole vectors.
// Owns: which elements of the first and the last vector are of the slice. Never: a kernel.

#pragma once

#include "vector.cuh"

namespace covered_slice {

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

// Vectors begin where addresses are multiples of theirs. The first and the last may hold elements beside the slice, which
// are `other` when they are read, and are not written. There are none if kEven. Index counts the slice's elements.
template <typename T, bool kEven, typename Index>
struct Slice {
    static constexpr int kElements = 16 / sizeof(T);
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    int64_t aligned;
    // Of the slice, from `aligned`.
    Index begin;
    Index end;

    __device__ Slice(int64_t first, Index count)
        : aligned(first / kElements * kElements),
          begin(static_cast<Index>(first % kElements)),
          end(static_cast<Index>(first % kElements) + count) {}
    __device__ __forceinline__ Index vectors() const { return (end + kElements - 1) / kElements; }
    __device__ __forceinline__ bool is_whole(Index place) const {
        return kEven || (place * kElements >= begin && (place + 1) * kElements <= end);
    }
    __device__ __forceinline__ bool has(Index element) const { return kEven || (element >= begin && element < end); }
    // `again`: the elements are read once more later, so they stay in the caches.
    __device__ __forceinline__ Unit read(const T* input, Index place, bool again, float other = 0.0f) const {
        Unit unit;
        const T* const from = input + aligned + static_cast<int64_t>(place) * kElements;
        if (is_whole(place)) {
            const Bits* const bits = reinterpret_cast<const Bits*>(from);
            unit.bits = again ? *bits : load(bits);
        } else {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                unit.set(j, has(place * kElements + j) ? to_float(from[j]) : other);
            }
        }
        return unit;
    }
    // What belongs to the elements of a vector, of a tensor that has an element for each of the slice.
    __device__ __forceinline__ Unit beside(const T* from, Index place) const {
        const Index first = place * kElements - begin;
        if (is_whole(place)) {
            return across<T, kElements>(from + first);
        }
        Unit unit;
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            unit.elements[j] = from[has(place * kElements + j) ? first + j : 0];
        }
        return unit;
    }
    __device__ __forceinline__ void write(T* out, Index place, const Unit& unit) const {
        T* const to = out + aligned + static_cast<int64_t>(place) * kElements;
        if (is_whole(place)) {
            store(reinterpret_cast<Bits*>(to), unit.bits);
        } else {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                if (has(place * kElements + j)) {
                    to[j] = unit.elements[j];
                }
            }
        }
    }
    // How many elements of a vector are of the slice.
    __device__ __forceinline__ int count(Index place) const {
        if (is_whole(place)) {
            return kElements;
        }
        const Index first = place * kElements < begin ? begin : place * kElements;
        const Index last = (place + 1) * kElements > end ? end : (place + 1) * kElements;
        return static_cast<int>(last - first);
    }
    // Sum of the squared deviations from `mean`.
    __device__ __forceinline__ float squares(const Unit& unit, Index place, float mean) const {
        float squares = 0.0f;
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            const float deviation = has(place * kElements + j) ? unit.get(j) - mean : 0.0f;
            squares += deviation * deviation;
        }
        return squares;
    }
};

}  // namespace covered_slice
