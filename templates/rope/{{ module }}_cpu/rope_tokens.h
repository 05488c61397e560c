// The tokens of a rotary embedding, included by each_isa.h once per instruction set. Owns: which angles a token has.
// Never: chooses the instruction set or the type.
//
// A position below zero counts from the end of the table, as in PyTorch. One that the table does not have makes the
// token NaN: memory beyond the table is not read.

#include "rotation.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_INLINE void rotate(void* out, const void* in, int64_t token, int64_t heads, const RopeCall& call,
                          const typename Type::Storage* row) {
    using Storage = typename Type::Storage;
    const int64_t half = call.dim / 2;
    Storage* const to = static_cast<Storage*>(out) + token * heads * call.dim;
    const Storage* const from = static_cast<const Storage*>(in) + token * heads * call.dim;
    const RowAngles<Type> angles = {row, row == nullptr ? row : row + half};
    if (row == nullptr) {
        for (int64_t i = 0; i < heads * call.dim; ++i) {
            to[i] = Type::kNan;
        }
    } else if (call.interleaved) {
        rotate_neighbors<Type>(to, from, heads, call.dim, half, angles);
    } else {
        rotate_halves<Type>(to, from, heads, call.dim, half, angles);
    }
}

template <typename Type>
KERNEL_TARGET void pieces(const RopeCall& call, int64_t first, int64_t last) {
    const int64_t* const positions = static_cast<const int64_t*>(call.positions);
    for (int64_t token = first; token < last; ++token) {
        const auto* const row = row_of_table<typename Type::Storage>(
            call.cos_sin, call.table, call.dim, positions == nullptr ? token : positions[token]);
        rotate<Type>(call.q_out, call.q, token, call.heads, call, row);
        rotate<Type>(call.k_out, call.k, token, call.kv_heads, call, row);
    }
}

} // namespace KERNEL_ISA
