// The pairs of heads rotated by the angles of a token, included by the body of a kernel once per instruction set.
// Owns: the arithmetic of a pair, and the walk over the heads of a token. Never: knows which angles a token has.
//
// A body gives a class with two functions, in which `first` is a pair of a head and `count` how many pairs are wanted, at
// most as many as a load has elements:
//
//     Pair<Type> blocks(int64_t first, int64_t count) const;   // cosines and sines as a load of Type has them
//     void lanes(float* cosines, float* sines, int64_t first, int64_t count) const;   // in their order
//
// Results may be written over what was read.

namespace KERNEL_ISA {

// The two of a pair, in vectors of their own.
template <typename Type>
struct Pair {
    Block<Type::kParts> a;
    Block<Type::kParts> b;
};

template <typename Type>
KERNEL_INLINE Pair<Type> rotated(Pair<Type> pair, const Pair<Type>& angle) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        const Floats a = pair.a.part[part];
        const Floats b = pair.b.part[part];
        const Floats cosine = angle.a.part[part];
        const Floats sine = angle.b.part[part];
        pair.a.part[part] = multiply_add(a, cosine, -(b * sine));
        pair.b.part[part] = multiply_add(b, cosine, a * sine);
    }
    return pair;
}

// Pairs `half` apart, of heads that are `dim` apart. The angles stay in their registers for all heads.
template <typename Type, typename Angles>
KERNEL_INLINE void rotate_halves(typename Type::Storage* out, const typename Type::Storage* in, int64_t heads,
                                 int64_t dim, int64_t half, const Angles& angles) {
    int64_t column = 0;
    for (; column + Type::kElements <= half; column += Type::kElements) {
        const Pair<Type> angle = angles.blocks(column, Type::kElements);
        for (int64_t at = column; at < heads * dim; at += dim) {
            const Pair<Type> pair = rotated<Type>({Type::load(in + at), Type::load(in + at + half)}, angle);
            Type::store(out + at, pair.a);
            Type::store(out + at + half, pair.b);
        }
    }
    if (column < half) {
        const int64_t count = half - column;
        const Pair<Type> angle = angles.blocks(column, count);
        for (int64_t at = column; at < heads * dim; at += dim) {
            const Pair<Type> pair =
                rotated<Type>({load_tail<Type>(in + at, count), load_tail<Type>(in + at + half, count)}, angle);
            store_tail<Type>(out + at, pair.a, count);
            store_tail<Type>(out + at + half, pair.b, count);
        }
    }
}

// Neighbors change places.
KERNEL_INLINE Floats swapped(Floats value) {
    const Pairs pairs = (Pairs)value;
    return (Floats)((pairs << 32) | (pairs >> 32));
}

// Pairs of neighbors: (a, b) times (cos, cos) plus (b, a) times (-sin, sin). A load of bfloat16 has all first ones of
// its pairs in one vector and all second ones in another, and for these the angles are in their order.
template <typename Type>
KERNEL_INLINE Block<Type::kParts> rotated_neighbors(Block<Type::kParts> pairs, Floats cosine, Floats sine) {
    if constexpr (Type::kParts == 2) {
        const Floats a = pairs.part[0];
        const Floats b = pairs.part[1];
        pairs.part[0] = multiply_add(a, cosine, -(b * sine));
        pairs.part[1] = multiply_add(b, cosine, a * sine);
    } else {
        pairs.part[0] = multiply_add(pairs.part[0], cosine, swapped(pairs.part[0]) * sine);
    }
    return pairs;
}

// The angles of one pair for both of its elements, as rotated_neighbors() wants them.
template <typename Type>
KERNEL_INLINE Floats for_neighbors(float* lanes, float sign) {
    if constexpr (Type::kParts == 1) {
        for (int64_t i = kLanes / 2 - 1; i >= 0; --i) {
            lanes[2 * i + 1] = lanes[i];
            lanes[2 * i] = lanes[i] * sign;
        }
    }
    return load_floats(lanes);
}

// Pairs of neighbors, the first `half` pairs of heads that are `dim` apart.
template <typename Type, typename Angles>
KERNEL_INLINE void rotate_neighbors(typename Type::Storage* out, const typename Type::Storage* in, int64_t heads,
                                    int64_t dim, int64_t half, const Angles& angles) {
    for (int64_t column = 0; column < 2 * half; column += Type::kElements) {
        const int64_t count = 2 * half - column < Type::kElements ? 2 * half - column : Type::kElements;
        float cosines[kLanes] = {};
        float sines[kLanes] = {};
        angles.lanes(cosines, sines, column / 2, count / 2);
        const Floats cosine = for_neighbors<Type>(cosines, 1.0f);
        const Floats sine = for_neighbors<Type>(sines, -1.0f);
        if (count == Type::kElements) {
            for (int64_t at = column; at < heads * dim; at += dim) {
                Type::store(out + at, rotated_neighbors<Type>(Type::load(in + at), cosine, sine));
            }
        } else {
            for (int64_t at = column; at < heads * dim; at += dim) {
                store_tail<Type>(out + at, rotated_neighbors<Type>(load_tail<Type>(in + at, count), cosine, sine),
                                 count);
            }
        }
    }
}

// Angles that are rows of a table of the same type: `half` cosines, and sines.
template <typename Type>
struct RowAngles {
    const typename Type::Storage* cosines;
    const typename Type::Storage* sines;

    KERNEL_INLINE Pair<Type> blocks(int64_t first, int64_t count) const {
        return {load_up_to<Type>(cosines + first, count), load_up_to<Type>(sines + first, count)};
    }

    KERNEL_INLINE void lanes(float* to_cosines, float* to_sines, int64_t first, int64_t count) const {
        store_floats(to_cosines, in_order(cosines + first, count));
        store_floats(to_sines, in_order(sines + first, count));
    }

    KERNEL_INLINE static Floats in_order(const typename Type::Storage* from, int64_t count) {
        typename Type::Storage some[Type::kElements] = {};
        std::memcpy(some, from, count * sizeof *some);
        return Type::load_in_order(some);
    }
};

// Where the row of a position is: one below zero counts from the end of the table, as in PyTorch; none for a position
// that the table does not have, so that memory beyond it is not read.
template <typename Storage>
inline const Storage* row_of_table(const void* table, int64_t rows, int64_t width, int64_t position) {
    const int64_t row = position < 0 ? position + rows : position;
    return row >= 0 && row < rows ? static_cast<const Storage*>(table) + row * width : nullptr;
}

} // namespace KERNEL_ISA
