// The rows of a root-mean-square normalisation, included by each_isa.h once per instruction set. Owns: the arithmetic of a
// row. Never: chooses the instruction set or the type.
//
// A row has one thread: a single long row is not divided.

namespace KERNEL_ISA {

struct Square {
    KERNEL_INLINE Floats operator()(Floats value) const { return value * value; }
};

template <typename Type>
KERNEL_INLINE Block<Type::kParts> scaled(Block<Type::kParts> block, const Block<Type::kParts>& weight, float scale) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] = block.part[part] * scale * weight.part[part];
    }
    return block;
}

template <typename Type>
KERNEL_TARGET void pieces(const RmsNormCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const Storage* const weight = static_cast<const Storage*>(call.weight);
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        Storage* const to = static_cast<Storage*>(call.out) + row * call.hidden;
        const float mean = row_sum<Type>(from, call.hidden, Square{}) / static_cast<float>(call.hidden);
        const float scale = 1.0f / std::sqrt(mean + static_cast<float>(call.eps));
        int64_t column = 0;
        for (; column + Type::kElements <= call.hidden; column += Type::kElements) {
            Type::store(to + column, scaled<Type>(Type::load(from + column), Type::load(weight + column), scale));
        }
        if (column < call.hidden) {
            const int64_t count = call.hidden - column;
            store_tail<Type>(to + column,
                             scaled<Type>(load_tail<Type>(from + column, count), load_tail<Type>(weight + column, count), scale),
                             count);
        }
    }
}

} // namespace KERNEL_ISA
