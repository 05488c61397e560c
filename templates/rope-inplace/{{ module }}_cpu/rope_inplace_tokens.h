// The tokens of a rotary embedding in place, included by each_isa.h once per instruction set. Owns: which angles a token
// has. Never: chooses the instruction set or the type.
//
// What lies in a head behind its first `rotary` elements is not touched. A position below zero counts from the end of
// the table, as in PyTorch. One that the table does not have makes what is rotated NaN: memory beyond the table is not
// read.

#include "rotation.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_INLINE void rotate(void* heads_of_all, int64_t token, int64_t heads, const RopeInplaceCall& call,
                          const typename Type::Storage* row) {
    using Storage = typename Type::Storage;
    // Never more than a head has.
    const int64_t half = (call.rotary < call.dim ? call.rotary : call.dim) / 2;
    Storage* const at = static_cast<Storage*>(heads_of_all) + token * heads * call.dim;
    const RowAngles<Type> angles = {row, row == nullptr ? row : row + call.rotary / 2};
    if (row == nullptr) {
        for (int64_t head = 0; head < heads; ++head) {
            for (int64_t i = 0; i < 2 * half; ++i) {
                at[head * call.dim + i] = Type::kNan;
            }
        }
    } else if (call.interleaved) {
        rotate_neighbors<Type>(at, at, heads, call.dim, half, angles);
    } else {
        rotate_halves<Type>(at, at, heads, call.dim, half, angles);
    }
}

template <typename Type>
KERNEL_TARGET void pieces(const RopeInplaceCall& call, int64_t first, int64_t last) {
    const int64_t* const positions = static_cast<const int64_t*>(call.positions);
    for (int64_t token = first; token < last; ++token) {
        const auto* const row = row_of_table<typename Type::Storage>(
            call.cos_sin, call.table, call.rotary, positions == nullptr ? token : positions[token]);
        rotate<Type>(call.q_out, token, call.heads, call, row);
        rotate<Type>(call.k_out, token, call.kv_heads, call, row);
    }
}

} // namespace KERNEL_ISA
