// Rows that several blocks share.
// Owns: which part of a row a block has. Never: a kernel.

#pragma once

#include "vector.cuh"

namespace row_parts {

using namespace vector;

// The slice of a row that block `part` of `parts` has.
template <int kElements>
__device__ __forceinline__ Slice<kElements> slice_of(int64_t row, int64_t hidden, int part, int parts) {
    const int64_t share = (hidden + parts - 1) / parts;
    const int64_t begin = share * part < hidden ? share * part : hidden;
    const int64_t end = begin + share < hidden ? begin + share : hidden;
    return Slice<kElements>(row * hidden + begin, end - begin);
}

}  // namespace row_parts
