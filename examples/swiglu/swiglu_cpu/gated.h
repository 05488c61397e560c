// An activated gate times a value, for rows that are gates first and values then; included by the body of a kernel once
// per instruction set, after exponentials.h. Owns: the walk over a row, and logistic gates. Never: knows which
// activation it is.
//
// Elements are independent of each other, so a piece of work is kColumns results of a row, and few long rows are for
// several threads, too.

namespace KERNEL_ISA {

// op.toml has the same number in [cpu].
constexpr int64_t kColumns = 2048;

// gate / (1 + e^-x) for an x that has the gate's sign, given without it: below zero that is gate e^x / (1 + e^x). The
// root of the exponential is multiplied twice, so that results are right down to the smallest numbers. Error: 4.2 units
// in the last place (measured for x = gate).
KERNEL_INLINE Floats logistic_gate(Floats gate, Floats size) {
    const Floats root = exponential(size * -0.5f);
    const Floats numerator = gate < 0.0f ? gate * root * root : gate;
    return numerator / multiply_add(root, root, splat(1.0f));
}

template <typename Type, typename Activation>
KERNEL_INLINE Block<Type::kParts> gated(Block<Type::kParts> gate, const Block<Type::kParts>& value,
                                        const Activation& activation) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        gate.part[part] = activation(gate.part[part]) * value.part[part];
    }
    return gate;
}

// Pieces of `input` [rows, 2, hidden] that make those of `out` [rows, hidden].
template <typename Type, typename Activation>
KERNEL_INLINE void gate_pieces(void* out, const void* input, int64_t hidden, int64_t first, int64_t last,
                               const Activation& activation) {
    using Storage = typename Type::Storage;
    const int64_t pieces_of_row = (hidden + kColumns - 1) / kColumns;
    for (int64_t piece = first; piece < last; ++piece) {
        const int64_t row = piece / pieces_of_row;
        const int64_t begin = piece % pieces_of_row * kColumns;
        const int64_t length = hidden - begin < kColumns ? hidden - begin : kColumns;
        const Storage* const gates = static_cast<const Storage*>(input) + row * 2 * hidden + begin;
        const Storage* const values = gates + hidden;
        Storage* const to = static_cast<Storage*>(out) + row * hidden + begin;
        int64_t column = 0;
        for (; column + Type::kElements <= length; column += Type::kElements) {
            Type::store(to + column, gated<Type>(Type::load(gates + column), Type::load(values + column), activation));
        }
        if (column < length) {
            const int64_t count = length - column;
            store_tail<Type>(to + column,
                             gated<Type>(load_tail<Type>(gates + column, count),
                                         load_tail<Type>(values + column, count), activation),
                             count);
        }
    }
}

} // namespace KERNEL_ISA
