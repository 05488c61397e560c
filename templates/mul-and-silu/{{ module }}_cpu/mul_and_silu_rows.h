// SwiGLU with the gates last, included by each_isa.h once per instruction set. Owns: the activation, and where the gates of a
// row are. Never: chooses the instruction set or the type.

#include "exponentials.h"
#include "gated.h"

namespace KERNEL_ISA {

struct Silu {
    KERNEL_INLINE Floats operator()(Floats gate) const { return logistic_gate(gate, magnitude(gate)); }
};

// Pieces of kColumns results of a row, as gate_pieces() has them for rows that begin with the gates.
template <typename Type>
KERNEL_TARGET void pieces(const MulAndSiluCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const int64_t pieces_of_row = (call.hidden + kColumns - 1) / kColumns;
    for (int64_t piece = first; piece < last; ++piece) {
        const int64_t row = piece / pieces_of_row;
        const int64_t begin = piece % pieces_of_row * kColumns;
        const int64_t length = call.hidden - begin < kColumns ? call.hidden - begin : kColumns;
        const Storage* const values = static_cast<const Storage*>(call.input) + row * 2 * call.hidden + begin;
        const Storage* const gates = values + call.hidden;
        Storage* const to = static_cast<Storage*>(call.out) + row * call.hidden + begin;
        int64_t column = 0;
        for (; column + Type::kElements <= length; column += Type::kElements) {
            Type::store(to + column, gated<Type>(Type::load(gates + column), Type::load(values + column), Silu{}));
        }
        if (column < length) {
            const int64_t count = length - column;
            store_tail<Type>(to + column,
                             gated<Type>(load_tail<Type>(gates + column, count),
                                         load_tail<Type>(values + column, count), Silu{}),
                             count);
        }
    }
}

} // namespace KERNEL_ISA
