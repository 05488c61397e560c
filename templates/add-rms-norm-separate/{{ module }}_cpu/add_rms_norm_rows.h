// The rows of add-rms-norm-separate, included by each_isa.h once per instruction set. Owns: the arithmetic of a row. Never:
// chooses the instruction set or the type.
//
// The inputs are read twice: what is normalised is the sum before its rounding. A row has one thread: a single long row is
// not divided.

namespace KERNEL_ISA {

template <typename Type>
KERNEL_INLINE Block<Type::kParts> added(Block<Type::kParts> block, const Block<Type::kParts>& other) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] += other.part[part];
    }
    return block;
}

template <typename Type>
KERNEL_INLINE Block<Type::kParts> scaled(Block<Type::kParts> block, const Block<Type::kParts>& weight, float scale) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] = block.part[part] * scale * weight.part[part];
    }
    return block;
}

template <typename Type>
KERNEL_INLINE float square_sum(const typename Type::Storage* input, const typename Type::Storage* residual,
                               int64_t hidden) {
    constexpr int64_t kBlocks = kChains / Type::kParts;
    Floats chains[kChains] = {};
    int64_t column = 0;
    for (; column + kBlocks * Type::kElements <= hidden; column += kBlocks * Type::kElements) {
        for (int64_t i = 0; i < kBlocks; ++i) {
            const int64_t at = column + i * Type::kElements;
            const Block<Type::kParts> block = added<Type>(Type::load(input + at), Type::load(residual + at));
            for (int64_t part = 0; part < Type::kParts; ++part) {
                Floats& chain = chains[i * Type::kParts + part];
                chain = multiply_add(block.part[part], block.part[part], chain);
            }
        }
    }
    for (; column < hidden; column += Type::kElements) {
        const int64_t count = hidden - column;
        const Block<Type::kParts> block =
            added<Type>(load_up_to<Type>(input + column, count), load_up_to<Type>(residual + column, count));
        for (int64_t part = 0; part < Type::kParts; ++part) {
            chains[part] = multiply_add(block.part[part], block.part[part], chains[part]);
        }
    }
    return chains_sum(chains);
}

template <typename Type>
KERNEL_TARGET void pieces(const AddRmsNormCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const Storage* const weight = static_cast<const Storage*>(call.weight);
    for (int64_t row = first; row < last; ++row) {
        const Storage* const input = static_cast<const Storage*>(call.input) + row * call.hidden;
        const Storage* const residual = static_cast<const Storage*>(call.residual) + row * call.hidden;
        Storage* const out = static_cast<Storage*>(call.out) + row * call.hidden;
        Storage* const sum = static_cast<Storage*>(call.sum) + row * call.hidden;
        const float mean = square_sum<Type>(input, residual, call.hidden) / static_cast<float>(call.hidden);
        const float scale = 1.0f / std::sqrt(mean + static_cast<float>(call.eps));
        int64_t column = 0;
        for (; column + Type::kElements <= call.hidden; column += Type::kElements) {
            const Block<Type::kParts> block = added<Type>(Type::load(input + column), Type::load(residual + column));
            Type::store(out + column, scaled<Type>(block, Type::load(weight + column), scale));
            Type::store(sum + column, block);
        }
        if (column < call.hidden) {
            const int64_t count = call.hidden - column;
            const Block<Type::kParts> block =
                added<Type>(load_tail<Type>(input + column, count), load_tail<Type>(residual + column, count));
            store_tail<Type>(out + column, scaled<Type>(block, load_tail<Type>(weight + column, count), scale), count);
            store_tail<Type>(sum + column, block, count);
        }
    }
}

} // namespace KERNEL_ISA
