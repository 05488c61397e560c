// A chain of elementwise steps, included by each_isa.h once per instruction set. Owns: the chain, and the walk over
// elements. Never: chooses the instruction set or the type.

#include "exponentials.h"
#include "gated.h"

namespace KERNEL_ISA {

// op.toml has the same number in [cpu].
constexpr int64_t kPiece = 2048;

// A vector of elements of the result from one of each input and the scalars, all as float32; it is rounded afterwards.
// What stands here touches no memory and keeps nothing from one vector to the next: it is called once for each vector,
// in any order, also with zeros behind the last element. The same chain is in reference.py, and in the source for the
// device.
KERNEL_INLINE Floats expression(Floats input, Floats residual, float scale, float shift) {
    // hole: expression_cpu
    const Floats value = multiply_add(input, splat(scale), residual) + shift;
    return logistic_gate(value, magnitude(value));
    // end of hole: expression_cpu
}

template <typename Type>
KERNEL_INLINE Block<Type::kParts> chained(Block<Type::kParts> input, const Block<Type::kParts>& residual, float scale,
                                          float shift) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        input.part[part] = expression(input.part[part], residual.part[part], scale, shift);
    }
    return input;
}

template <typename Type>
KERNEL_TARGET void pieces(const ElementwiseCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const Storage* const inputs = static_cast<const Storage*>(call.input);
    const Storage* const residuals = static_cast<const Storage*>(call.residual);
    Storage* const out = static_cast<Storage*>(call.out);
    const float scale = static_cast<float>(call.scale);
    const float shift = static_cast<float>(call.shift);
    const int64_t end = last * kPiece < call.count ? last * kPiece : call.count;
    int64_t place = first * kPiece;
    for (; place + Type::kElements <= end; place += Type::kElements) {
        Type::store(out + place,
                    chained<Type>(Type::load(inputs + place), Type::load(residuals + place), scale, shift));
    }
    if (place < end) {
        const int64_t count = end - place;
        store_tail<Type>(out + place,
                         chained<Type>(load_tail<Type>(inputs + place, count),
                                       load_tail<Type>(residuals + place, count), scale, shift),
                         count);
    }
}

} // namespace KERNEL_ISA
