// The rows of a layer normalisation, included by each_isa.h once per instruction set. Owns: the arithmetic of a row.
// Never: chooses the instruction set or the type.
//
// A row has one thread: a single long row is not divided.

#include "moments.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_INLINE Block<Type::kParts> normalised(Block<Type::kParts> block, const Block<Type::kParts>& weight,
                                             const Block<Type::kParts>& bias, const Moments& of) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] = multiply_add((block.part[part] - of.mean) * of.scale, weight.part[part], bias.part[part]);
    }
    return block;
}

template <typename Type, bool kBiased>
KERNEL_INLINE void rows(const LayerNormCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const Storage* const weight = static_cast<const Storage*>(call.weight);
    const Storage* const bias = static_cast<const Storage*>(call.bias);
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        Storage* const to = static_cast<Storage*>(call.out) + row * call.hidden;
        const Moments of = moments<Type>(from, call.hidden, call.eps);
        int64_t column = 0;
        for (; column + Type::kElements <= call.hidden; column += Type::kElements) {
            Block<Type::kParts> plus = {};
            if constexpr (kBiased) {
                plus = Type::load(bias + column);
            }
            Type::store(to + column,
                        normalised<Type>(Type::load(from + column), Type::load(weight + column), plus, of));
        }
        if (column < call.hidden) {
            const int64_t count = call.hidden - column;
            Block<Type::kParts> plus = {};
            if constexpr (kBiased) {
                plus = load_tail<Type>(bias + column, count);
            }
            store_tail<Type>(to + column,
                             normalised<Type>(load_tail<Type>(from + column, count),
                                              load_tail<Type>(weight + column, count), plus, of),
                             count);
        }
    }
}

template <typename Type>
KERNEL_TARGET void pieces(const LayerNormCall& call, int64_t first, int64_t last) {
    if (call.bias != nullptr) {
        rows<Type, true>(call, first, last);
    } else {
        rows<Type, false>(call, first, last);
    }
}

} // namespace KERNEL_ISA
