// The rows of an adaptive layer normalisation, included by each_isa.h once per instruction set. Owns: the arithmetic of
// a row, which is a token of a batch. Never: chooses the instruction set or the type.
//
// A row has one thread: a single long row is not divided.

#include "moments.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_INLINE Block<Type::kParts> modulated(Block<Type::kParts> block, const Block<Type::kParts>& scale,
                                            const Block<Type::kParts>& shift, const Moments& of) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] =
            multiply_add((block.part[part] - of.mean) * of.scale, scale.part[part] + 1.0f, shift.part[part]);
    }
    return block;
}

template <typename Type>
KERNEL_TARGET void pieces(const AdalnCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    for (int64_t row = first; row < last; ++row) {
        const int64_t batch = row / call.tokens;
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        const Storage* const scale = static_cast<const Storage*>(call.scale) + batch * call.hidden;
        const Storage* const shift = static_cast<const Storage*>(call.shift) + batch * call.hidden;
        Storage* const to = static_cast<Storage*>(call.out) + row * call.hidden;
        const Moments of = moments<Type>(from, call.hidden, call.eps);
        int64_t column = 0;
        for (; column + Type::kElements <= call.hidden; column += Type::kElements) {
            Type::store(to + column, modulated<Type>(Type::load(from + column), Type::load(scale + column),
                                                     Type::load(shift + column), of));
        }
        if (column < call.hidden) {
            const int64_t count = call.hidden - column;
            store_tail<Type>(to + column,
                             modulated<Type>(load_tail<Type>(from + column, count),
                                             load_tail<Type>(scale + column, count),
                                             load_tail<Type>(shift + column, count), of),
                             count);
        }
    }
}

} // namespace KERNEL_ISA
