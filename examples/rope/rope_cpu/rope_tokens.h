// The tokens of a rotary embedding, included by each_isa.h once per instruction set. Owns: the arithmetic of a token.
// Never: chooses the instruction set or the type.
//
// A position below zero counts from the end of the table, as in PyTorch. One that the table does not have makes the
// token NaN: memory beyond the table is not read.

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

// Pairs half a head apart. The angles stay in their registers for all heads.
template <typename Type>
KERNEL_INLINE void rotate_halves(typename Type::Storage* out, const typename Type::Storage* in, int64_t heads,
                                 int64_t dim, const typename Type::Storage* angles) {
    const int64_t half = dim / 2;
    int64_t column = 0;
    for (; column + Type::kElements <= half; column += Type::kElements) {
        const Pair<Type> angle = {Type::load(angles + column), Type::load(angles + half + column)};
        for (int64_t at = column; at < heads * dim; at += dim) {
            const Pair<Type> pair = rotated<Type>({Type::load(in + at), Type::load(in + at + half)}, angle);
            Type::store(out + at, pair.a);
            Type::store(out + at + half, pair.b);
        }
    }
    if (column < half) {
        const int64_t count = half - column;
        const Pair<Type> angle = {load_tail<Type>(angles + column, count),
                                  load_tail<Type>(angles + half + column, count)};
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
// its pairs in one vector and all second ones in another, and for these the angles are as they lie in the table.
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

// The angles of `count` pairs, at most as many as a load has, as rotated_neighbors() wants them.
template <typename Type>
KERNEL_INLINE Floats angles_of_neighbors(const typename Type::Storage* angles, int64_t count, float sign) {
    typename Type::Storage some[Type::kElements] = {};
    std::memcpy(some, angles, count * sizeof *some);
    float lanes[kLanes];
    store_floats(lanes, Type::load_in_order(some));
    if constexpr (Type::kParts == 1) {
        for (int64_t i = kLanes / 2 - 1; i >= 0; --i) {
            lanes[2 * i + 1] = lanes[i];
            lanes[2 * i] = lanes[i] * sign;
        }
    }
    return load_floats(lanes);
}

template <typename Type>
KERNEL_INLINE void rotate_neighbors(typename Type::Storage* out, const typename Type::Storage* in, int64_t heads,
                                    int64_t dim, const typename Type::Storage* angles) {
    const int64_t half = dim / 2;
    for (int64_t column = 0; column < dim; column += Type::kElements) {
        const int64_t count = dim - column < Type::kElements ? dim - column : Type::kElements;
        const Floats cosine = angles_of_neighbors<Type>(angles + column / 2, count / 2, 1.0f);
        const Floats sine = angles_of_neighbors<Type>(angles + half + column / 2, count / 2, -1.0f);
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

template <typename Type>
KERNEL_INLINE void rotate(void* out, const void* in, int64_t token, int64_t heads, const RopeCall& call,
                          const typename Type::Storage* angles) {
    using Storage = typename Type::Storage;
    Storage* const to = static_cast<Storage*>(out) + token * heads * call.dim;
    const Storage* const from = static_cast<const Storage*>(in) + token * heads * call.dim;
    if (angles == nullptr) {
        for (int64_t i = 0; i < heads * call.dim; ++i) {
            to[i] = Type::kNan;
        }
    } else if (call.interleaved) {
        rotate_neighbors<Type>(to, from, heads, call.dim, angles);
    } else {
        rotate_halves<Type>(to, from, heads, call.dim, angles);
    }
}

template <typename Type>
KERNEL_TARGET void pieces(const RopeCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const int64_t* const positions = static_cast<const int64_t*>(call.positions);
    for (int64_t token = first; token < last; ++token) {
        const int64_t given = positions == nullptr ? token : positions[token];
        const int64_t position = given < 0 ? given + call.table : given;
        const bool is_in_table = position >= 0 && position < call.table;
        const Storage* const angles =
            is_in_table ? static_cast<const Storage*>(call.cos_sin) + position * call.dim : nullptr;
        rotate<Type>(call.q_out, call.q, token, call.heads, call, angles);
        rotate<Type>(call.k_out, call.k, token, call.kv_heads, call, angles);
    }
}

} // namespace KERNEL_ISA
