// The rows of a softmax, included by each_isa.h once per instruction set. Owns: the arithmetic of a row. Never: chooses
// the instruction set or the type.
//
// A row has one thread: a single long row is not divided.

#include "exponentials.h"

namespace KERNEL_ISA {

// The exponentials of a row are kept, unrounded, until their sum is known: in the result's memory where that is
// float32, else on the stack, where a row is no longer than this. Those of longer rows are computed twice.
constexpr int64_t kKept = 16384;

template <typename Type>
KERNEL_INLINE Block<Type::kParts> exponentials(const Block<Type::kParts>& block, Floats shift) {
    Block<Type::kParts> result;
    for (int64_t part = 0; part < Type::kParts; ++part) {
        result.part[part] = exponential(block.part[part] - shift);
    }
    return result;
}

template <typename Type>
KERNEL_INLINE Block<Type::kParts> scaled(Block<Type::kParts> block, Floats scale) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] *= scale;
    }
    return block;
}

// What is above the row's end counts as negative infinity, the exponential of which is zero, and is not stored.
template <typename Type>
KERNEL_INLINE Block<Type::kParts> tail_exponentials(const typename Type::Storage* from, int64_t count, Floats shift) {
    return exponentials<Type>(load_tail<Type>(from, count, Type::kLeast), shift);
}

template <typename Type>
KERNEL_TARGET inline void keep_row(typename Type::Storage* out, const typename Type::Storage* row, int64_t hidden,
                                   float* kept) {
    constexpr int64_t kBlocks = kChains / Type::kParts;
    const Floats shift = splat(row_largest<Type>(row, hidden));
    Floats chains[kChains] = {};
    int64_t column = 0;
    for (; column + kBlocks * Type::kElements <= hidden; column += kBlocks * Type::kElements) {
        for (int64_t i = 0; i < kBlocks; ++i) {
            const int64_t at = column + i * Type::kElements;
            const Block<Type::kParts> block = exponentials<Type>(Type::load(row + at), shift);
            for (int64_t part = 0; part < Type::kParts; ++part) {
                store_floats(kept + at + part * kLanes, block.part[part]);
                chains[i * Type::kParts + part] += block.part[part];
            }
        }
    }
    for (; column + Type::kElements <= hidden; column += Type::kElements) {
        const Block<Type::kParts> block = exponentials<Type>(Type::load(row + column), shift);
        for (int64_t part = 0; part < Type::kParts; ++part) {
            store_floats(kept + column + part * kLanes, block.part[part]);
            chains[part] += block.part[part];
        }
    }
    Block<Type::kParts> tail = {};
    if (column < hidden) {
        tail = tail_exponentials<Type>(row + column, hidden - column, shift);
        for (int64_t part = 0; part < Type::kParts; ++part) {
            chains[part] += tail.part[part];
        }
    }
    const Floats scale = splat(1.0f / chains_sum(chains));
    for (column = 0; column + Type::kElements <= hidden; column += Type::kElements) {
        Block<Type::kParts> block;
        for (int64_t part = 0; part < Type::kParts; ++part) {
            block.part[part] = load_floats(kept + column + part * kLanes);
        }
        Type::store(out + column, scaled<Type>(block, scale));
    }
    if (column < hidden) {
        store_tail<Type>(out + column, scaled<Type>(tail, scale), hidden - column);
    }
}

template <typename Type>
KERNEL_TARGET inline void recompute_row(typename Type::Storage* out, const typename Type::Storage* row,
                                        int64_t hidden) {
    const ExponentialSum found = exponential_sum<Type>(row, hidden);
    const Floats shift = splat(found.largest);
    const Floats scale = splat(1.0f / found.sum);
    int64_t column = 0;
    for (; column + Type::kElements <= hidden; column += Type::kElements) {
        Type::store(out + column, scaled<Type>(exponentials<Type>(Type::load(row + column), shift), scale));
    }
    if (column < hidden) {
        store_tail<Type>(out + column,
                         scaled<Type>(tail_exponentials<Type>(row + column, hidden - column, shift), scale),
                         hidden - column);
    }
}

template <typename Type>
KERNEL_TARGET void pieces(const SoftmaxCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        Storage* const to = static_cast<Storage*>(call.out) + row * call.hidden;
        if constexpr (std::is_same_v<Storage, float>) {
            keep_row<Type>(to, from, call.hidden, to);
        } else if (call.hidden <= kKept) {
            alignas(64) float kept[kKept];
            keep_row<Type>(to, from, call.hidden, kept);
        } else {
            recompute_row<Type>(to, from, call.hidden);
        }
    }
}

} // namespace KERNEL_ISA
