// The largest elements of rows, included by each_isa.h once per instruction set. Owns: the search in a row. Never:
// chooses the instruction set or the type.
//
// Of equal elements the first counts, and NaN more than anything. The first pass finds the largest element of each
// piece of a row, the second its place in the piece that has it. A row has one thread: a single long row is not
// divided.

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

struct IsEqual {
    Floats value;
    KERNEL_INLINE uint32_t operator()(Floats here) const { return equal_lanes(here, value); }
};

struct IsNan {
    KERNEL_INLINE uint32_t operator()(Floats here) const { return nan_lanes(here); }
};

// The first element of a block that is wanted; kElements if there is none.
template <typename Type, typename Wanted>
KERNEL_INLINE int64_t place_in(const Block<Type::kParts>& block, const Wanted& wanted) {
    int64_t place = Type::kElements;
    for (int64_t part = 0; part < Type::kParts; ++part) {
        const uint32_t lanes = wanted(block.part[part]);
        const int64_t first = lanes != 0 ? __builtin_ctz(lanes) * Type::kParts + part : Type::kElements;
        place = first < place ? first : place;
    }
    return place;
}

// The first column that is wanted; `length` or more if there is none.
template <typename Type, typename Wanted>
KERNEL_INLINE int64_t first_of(const typename Type::Storage* row, int64_t length, const Wanted& wanted) {
    int64_t column = 0;
    for (; column + 4 * Type::kElements <= length; column += 4 * Type::kElements) {
        uint32_t lanes = 0;
        for (int64_t i = 0; i < 4; ++i) {
            const Block<Type::kParts> block = Type::load(row + column + i * Type::kElements);
            for (int64_t part = 0; part < Type::kParts; ++part) {
                lanes |= wanted(block.part[part]);
            }
        }
        if (lanes != 0) {
            break;
        }
    }
    for (; column + Type::kElements <= length; column += Type::kElements) {
        const int64_t place = place_in<Type>(Type::load(row + column), wanted);
        if (place < Type::kElements) {
            return column + place;
        }
    }
    if (column < length) {
        // Behind the end are negative infinities. Where these are wanted, all elements of the row are.
        column += place_in<Type>(load_tail<Type>(row + column, length - column, Type::kLeast), wanted);
    }
    return column;
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
            const int64_t column = first_of<Type>(row + first, count, IsNan{});
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
    return begin + first_of<Type>(row + begin, count, IsEqual{splat(largest)});
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
