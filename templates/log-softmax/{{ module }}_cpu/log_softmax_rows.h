// The rows of a log-softmax, included by each_isa.h once per instruction set. Owns: the arithmetic of a row. Never:
// chooses the instruction set or the type.
//
// A row has one thread: a single long row is not divided.

#include "exponentials.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_INLINE Block<Type::kParts> lowered(Block<Type::kParts> block, Floats largest, Floats logarithm_of_sum) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] = block.part[part] - largest - logarithm_of_sum;
    }
    return block;
}

template <typename Type>
KERNEL_TARGET void pieces(const LogSoftmaxCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        Storage* const to = static_cast<Storage*>(call.out) + row * call.hidden;
        const ExponentialSum found = exponential_sum<Type>(from, call.hidden);
        const Floats largest = splat(found.largest);
        const Floats sum = splat(static_cast<float>(logarithm(found.sum)));
        int64_t column = 0;
        for (; column + Type::kElements <= call.hidden; column += Type::kElements) {
            Type::store(to + column, lowered<Type>(Type::load(from + column), largest, sum));
        }
        if (column < call.hidden) {
            const int64_t count = call.hidden - column;
            store_tail<Type>(to + column, lowered<Type>(load_tail<Type>(from + column, count), largest, sum), count);
        }
    }
}

} // namespace KERNEL_ISA
