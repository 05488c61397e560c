// Rows that several blocks share.
// Owns: which part of a row a block has. Never: a kernel.

#pragma once

#include "vector.cuh"

namespace row_parts {

using namespace vector;

// The slice of a row that block `part` of `parts` has. Slice is made of the place of its first element and their number.
template <typename Slice>
__device__ __forceinline__ Slice part_of_row(int64_t row, int64_t hidden, int part, int parts) {
    const int64_t share = (hidden + parts - 1) / parts;
    const int64_t begin = share * part < hidden ? share * part : hidden;
    const int64_t end = begin + share < hidden ? begin + share : hidden;
    return Slice(row * hidden + begin, end - begin);
}

template <int kElements>
__device__ __forceinline__ Slice<kElements> slice_of(int64_t row, int64_t hidden, int part, int parts) {
    return part_of_row<Slice<kElements>>(row, hidden, part, parts);
}

// Writes what becomes of the elements of a slice, by a block of kBlock threads, each of which has kUnroll vectors in flight.
// `finish` makes a result of an element, as float; `finish_unit` those of a vector, in its place.
template <typename T, int kBlock, int kUnroll, int kElements, typename Finish, typename FinishUnit>
__device__ __forceinline__ void write(
    T* out, const T* input, const Slice<kElements>& slice, const Finish& finish, const FinishUnit& finish_unit) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input + slice.aligned());
    Bits* const to = reinterpret_cast<Bits*>(out + slice.aligned());
    for (int64_t start = threadIdx.x; start < slice.vectors; start += kBlock * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                units[i].bits = load(from + start + i * kBlock);
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                finish_unit(units[i]);
                store(to + start + i * kBlock, units[i].bits);
            }
        }
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        from_float(finish(to_float(input[single])), out[single]);
    }
}

}  // namespace row_parts
