// The largest elements of rows, included by each_isa.h once per instruction set. Owns: the search in a row. Never:
// chooses the instruction set or the type.
//
// Of equal elements the first counts, and NaN more than anything. The first pass finds the largest element of each piece
// of a row, the second its place in the piece that has it. A row has one thread: a single long row is not divided.

namespace KERNEL_ISA {

struct Found {
    float largest;
    // NaN if an element is, and perhaps if some are infinite.
    float suspicion;
};

template <typename Type>
KERNEL_INLINE Found search(const typename Type::Storage* row, int64_t length) {
    constexpr int64_t kBlocks = kChains / Type::kParts;
    Floats chains[kChains];
    Floats sums[kChains] = {};
    for (int64_t i = 0; i < kChains; ++i) {
        chains[i] = splat(-kInfinity);
    }
    int64_t column = 0;
    for (; column + kBlocks * Type::kElements <= length; column += kBlocks * Type::kElements) {
        for (int64_t i = 0; i < kBlocks; ++i) {
            const Block<Type::kParts> block = Type::load(row + column + i * Type::kElements);
            for (int64_t part = 0; part < Type::kParts; ++part) {
                const int64_t chain = i * Type::kParts + part;
                chains[chain] = larger(block.part[part], chains[chain]);
                sums[chain] += block.part[part];
            }
        }
    }
    for (; column < length; column += Type::kElements) {
        const int64_t count = length - column;
        const Block<Type::kParts> block = count < Type::kElements
                                              ? load_tail<Type>(row + column, count, Type::kLeast)
                                              : Type::load(row + column);
        for (int64_t part = 0; part < Type::kParts; ++part) {
            chains[part] = larger(block.part[part], chains[part]);
            sums[part] += block.part[part];
        }
    }
    return {chains_largest(chains), chains_sum(sums)};
}

// The first column with `value`, or with NaN if that is NaN; `length` if there is none.
template <typename Type>
KERNEL_INLINE int64_t first_of(const typename Type::Storage* row, int64_t length, float value) {
    const Floats wanted = splat(value);
    const bool wants_nan = value != value;
    int64_t column = 0;
    for (; column + Type::kElements <= length; column += Type::kElements) {
        const Block<Type::kParts> block = Type::load(row + column);
        Mask found = {};
        for (int64_t part = 0; part < Type::kParts; ++part) {
            found |= wants_nan ? block.part[part] != block.part[part] : block.part[part] == wanted;
        }
        if (any(found)) {
            break;
        }
    }
    for (; column < length; ++column) {
        const float element = lanes_first(load_tail<Type>(row + column, 1).part[0]);
        if (element == value || (wants_nan && element != element)) {
            return column;
        }
    }
    return length;
}

template <typename Type>
KERNEL_INLINE int64_t largest_column(const typename Type::Storage* row, int64_t hidden) {
    constexpr int64_t kPiece = 16384 / sizeof(typename Type::Storage);
    float largest = -kInfinity;
    int64_t begin = 0;
    for (int64_t first = 0; first < hidden; first += kPiece) {
        const int64_t count = hidden - first < kPiece ? hidden - first : kPiece;
        const Found found = search<Type>(row + first, count);
        if (found.suspicion != found.suspicion) {
            const int64_t column = first_of<Type>(row + first, count, found.suspicion);
            if (column < count) {
                return first + column;
            }
        }
        if (found.largest > largest) {
            largest = found.largest;
            begin = first;
        }
    }
    const int64_t count = hidden - begin < kPiece ? hidden - begin : kPiece;
    return begin + first_of<Type>(row + begin, count, largest);
}

template <typename Type>
KERNEL_TARGET void pieces(const RowMaxCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        const int64_t column = largest_column<Type>(from, call.hidden);
        static_cast<Storage*>(call.values)[row] = from[column];
        static_cast<int64_t*>(call.indices)[row] = column;
    }
}

} // namespace KERNEL_ISA
