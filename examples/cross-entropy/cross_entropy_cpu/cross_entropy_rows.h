// The rows of a cross-entropy, included by each_isa.h once per instruction set. Owns: the arithmetic of a row. Never:
// chooses the instruction set or the type.
//
// A row has one thread: a single long row is not divided.

#include "exponentials.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_TARGET void pieces(const CrossEntropyCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const int64_t* const targets = static_cast<const int64_t*>(call.target);
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.vocabulary;
        const ExponentialSum found = exponential_sum<Type>(from, call.vocabulary);
        const double sum = logarithm(found.sum);
        const int64_t target = targets[row];
        const bool counts = target != call.ignore_index && target >= 0 && target < call.vocabulary;
        // What is left of the largest element and the target's is exact or nearly so; adding the sum first would round
        // by the size of the logits.
        const double above =
            counts ? static_cast<double>(found.largest) - lanes_first(load_tail<Type>(from + target, 1).part[0]) : 0.0;
        static_cast<float*>(call.loss)[row] = counts ? static_cast<float>(sum + above) : 0.0f;
        static_cast<float*>(call.lse)[row] = static_cast<float>(sum + found.largest);
    }
}

} // namespace KERNEL_ISA
