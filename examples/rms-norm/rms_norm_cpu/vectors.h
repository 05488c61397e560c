// Vectors of float32, and tensors of bf16, f16 and f32 as such, included by each_isa.h once per instruction set.
// Owns: loads, stores, conversions, and sums and maxima over lanes. Never: knows an operation, chooses the instruction
// set; there is no include guard because it is meant to be included again.
//
// The vectors are the compiler's own, so one text serves AVX-512, AVX2, SSE2 and NEON. Intel's functions stand only
// where the compilers do not find the instruction by themselves.

// A vector that is passed to a function must stay in its register.
#define KERNEL_INLINE KERNEL_TARGET inline __attribute__((always_inline))

namespace KERNEL_ISA {

constexpr int64_t kLanes = KERNEL_LANES;
// Vectors that a sum or a maximum is kept in, so that no addition waits for the one before.
constexpr int64_t kChains = kLanes == 16 ? 4 : 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
typedef int32_t Mask __attribute__((vector_size(kLanes * 4)));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));
typedef uint64_t Pairs __attribute__((vector_size(kLanes * 4)));

// The same vectors where they lie in a tensor, at any address. (Copying with memcpy instead goes through the stack in
// narrower pieces with gcc 12: eighteen times slower with AVX2.)
typedef float FloatsInMemory __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef uint32_t WordsInMemory __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef uint16_t HalvesInMemory __attribute__((vector_size(kLanes * 2), aligned(1), may_alias));

KERNEL_INLINE Floats load_floats(const float* from) { return *reinterpret_cast<const FloatsInMemory*>(from); }

KERNEL_INLINE void store_floats(float* to, Floats value) { *reinterpret_cast<FloatsInMemory*>(to) = value; }

KERNEL_INLINE Floats splat(float value) { return value - Floats{}; }

KERNEL_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if KERNEL_X86 == 512
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif KERNEL_X86 == 256
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

// The larger one, and `b` where one of them is NaN.
KERNEL_INLINE Floats larger(Floats a, Floats b) {
#if KERNEL_X86 == 512
    // The zero-masking form: gcc 12 warns of an uninitialised value inside its own header for the plain one.
    return (Floats)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
#elif KERNEL_X86 == 256
    return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return a > b ? a : b;
#endif
}

KERNEL_INLINE Floats magnitude(Floats value) { return (Floats)((Words)value & 0x7fffffff); }

#if KERNEL_X86 == 0
// A bit for each lane, the first one lowest.
KERNEL_INLINE uint32_t lane_bits(Mask mask) {
    int32_t lanes[kLanes];
    std::memcpy(lanes, &mask, sizeof lanes);
    uint32_t bits = 0;
    for (int64_t i = 0; i < kLanes; ++i) {
        bits |= (static_cast<uint32_t>(lanes[i]) & 1) << i;
    }
    return bits;
}
#endif

// A bit for each lane in which both are equal, the first one lowest.
KERNEL_INLINE uint32_t equal_lanes(Floats a, Floats b) {
#if KERNEL_X86 == 512
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
#elif KERNEL_X86 == 256
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_EQ_OQ)));
#else
    return lane_bits(a == b);
#endif
}

// A bit for each lane that is NaN.
KERNEL_INLINE uint32_t nan_lanes(Floats value) {
#if KERNEL_X86 == 512
    return _mm512_cmp_ps_mask((__m512)value, (__m512)value, _CMP_UNORD_Q);
#elif KERNEL_X86 == 256
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)value, (__m256)value, _CMP_UNORD_Q)));
#else
    return lane_bits(value != value);
#endif
}

KERNEL_INLINE float lanes_first(Floats value) {
    float lanes[kLanes];
    store_floats(lanes, value);
    return lanes[0];
}

struct Sum {
#if KERNEL_X86
    KERNEL_INLINE static __m256 of_eight(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
    KERNEL_INLINE static __m128 of_four(__m128 a, __m128 b) { return _mm_add_ps(a, b); }
#endif
    KERNEL_INLINE static Floats of(Floats a, Floats b) { return a + b; }
    KERNEL_INLINE static float of(float a, float b) { return a + b; }
};

// Where an element is NaN the result is any other one.
struct Maximum {
#if KERNEL_X86
    KERNEL_INLINE static __m256 of_eight(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
    KERNEL_INLINE static __m128 of_four(__m128 a, __m128 b) { return _mm_max_ps(a, b); }
#endif
    KERNEL_INLINE static Floats of(Floats a, Floats b) { return larger(a, b); }
    KERNEL_INLINE static float of(float a, float b) { return a > b ? a : b; }
};

// Chains are joined as a tree, and so are lanes: a row of n elements passes through n / 64 (SSE2: n / 32) additions in
// sequence, which keeps the rounding error of long rows small.
template <typename Join>
KERNEL_INLINE float joined(Floats* chains) {
    for (int64_t width = kChains / 2; width > 0; width /= 2) {
        for (int64_t i = 0; i < width; ++i) {
            chains[i] = Join::of(chains[i], chains[i + width]);
        }
    }
#if KERNEL_X86
#if KERNEL_X86 == 512
    const __m512 all = (__m512)chains[0];
    const __m256 half =
        Join::of_eight(_mm512_maskz_extractf32x8_ps(0xff, all, 0), _mm512_maskz_extractf32x8_ps(0xff, all, 1));
#else
    const __m256 half = (__m256)chains[0];
#endif
    __m128 few = Join::of_four(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    few = Join::of_four(few, _mm_movehl_ps(few, few));
    return _mm_cvtss_f32(Join::of_four(few, _mm_shuffle_ps(few, few, 1)));
#else
    float lanes[kLanes];
    store_floats(lanes, chains[0]);
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (int64_t i = 0; i < width; ++i) {
            lanes[i] = Join::of(lanes[i], lanes[i + width]);
        }
    }
    return lanes[0];
#endif
}

KERNEL_INLINE float chains_sum(Floats* chains) { return joined<Sum>(chains); }

KERNEL_INLINE float chains_largest(Floats* chains) { return joined<Maximum>(chains); }

// What one load moves: kElements of a type, as kParts vectors of float32. Which element goes to which lane is the
// type's own business, as long as load and store agree.
template <int64_t kParts>
struct Block {
    Floats part[kParts];
};

struct Float32 {
    using Storage = float;
    static constexpr int64_t kParts = 1;
    static constexpr int64_t kElements = kLanes;
    static constexpr Storage kOne = 1.0f;
    static constexpr Storage kLeast = -kInfinity;
    static constexpr Storage kNan = std::numeric_limits<float>::quiet_NaN();

    KERNEL_INLINE static Block<kParts> load(const Storage* from) { return {{load_floats(from)}}; }

    KERNEL_INLINE static void store(Storage* to, const Block<kParts>& block) { store_floats(to, block.part[0]); }

    // kLanes elements in their order.
    KERNEL_INLINE static Floats load_in_order(const Storage* from) { return load_floats(from); }
};

// A bfloat16 is the upper half of a float32. Two of them lie in a 32-bit word: a shift makes a float32 of one, a mask
// of the other, which needs no rearranging of lanes.
struct BFloat16 {
    using Storage = uint16_t;
    static constexpr int64_t kParts = 2;
    static constexpr int64_t kElements = 2 * kLanes;
    static constexpr Storage kOne = 0x3f80;
    static constexpr Storage kLeast = 0xff80;
    static constexpr Storage kNan = 0x7fc0;

    KERNEL_INLINE static Block<kParts> load(const Storage* from) {
        const Words words = *reinterpret_cast<const WordsInMemory*>(from);
        return {{(Floats)(words << 16), (Floats)(words & 0xffff0000)}};
    }

    KERNEL_INLINE static void store(Storage* to, const Block<kParts>& block) {
        *reinterpret_cast<WordsInMemory*>(to) =
            (rounded(block.part[0]) >> 16) | (rounded(block.part[1]) & 0xffff0000);
    }

    KERNEL_INLINE static Floats load_in_order(const Storage* from) {
        const Halves halves = *reinterpret_cast<const HalvesInMemory*>(from);
        return (Floats)(__builtin_convertvector(halves, Words) << 16);
    }

    // The upper half of the result is the bfloat16, to nearest, ties to even. A NaN keeps its sign and becomes quiet,
    // so that rounding cannot make it infinite.
    KERNEL_INLINE static Words rounded(const Floats& value) {
        const Words bits = (Words)value;
        const Words nearest = bits + 0x7fff + ((bits >> 16) & 1);
        const Mask is_nan = value != value;
        return is_nan ? bits | 0x00400000 : nearest;
    }
};

struct Float16 {
    using Storage = uint16_t;
    static constexpr int64_t kParts = 1;
    static constexpr int64_t kElements = kLanes;
    static constexpr Storage kOne = 0x3c00;
    static constexpr Storage kLeast = 0xfc00;
    static constexpr Storage kNan = 0x7e00;

#if KERNEL_X86 == 512
    KERNEL_INLINE static Block<kParts> load(const Storage* from) {
        const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        return {{(Floats)_mm512_maskz_cvtph_ps(0xffff, halves)}};
    }

    KERNEL_INLINE static void store(Storage* to, const Block<kParts>& block) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm512_maskz_cvtps_ph(0xffff, (__m512)block.part[0], _MM_FROUND_TO_NEAREST_INT));
    }
#elif KERNEL_X86 == 256
    KERNEL_INLINE static Block<kParts> load(const Storage* from) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        return {{(Floats)_mm256_cvtph_ps(halves)}};
    }

    KERNEL_INLINE static void store(Storage* to, const Block<kParts>& block) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                         _mm256_cvtps_ph((__m256)block.part[0], _MM_FROUND_TO_NEAREST_INT));
    }
#else
    // A float16 moved to the exponent field of a float32 is too small by 2^112, subnormal numbers included, so one
    // exact multiplication converts both; infinities and NaNs get the exponent of their new format.
    KERNEL_INLINE static Block<kParts> load(const Storage* from) {
        const Halves halves = *reinterpret_cast<const HalvesInMemory*>(from);
        const Words wide = __builtin_convertvector(halves, Words);
        const Words magnitude = (wide & 0x7fff) << 13;
        const Words finite = (Words)((Floats)magnitude * 0x1p112f);
        const Words special = magnitude | 0x7f800000;
        const Mask is_special = (Mask)magnitude >= 0x0f800000;
        return {{(Floats)((is_special ? special : finite) | ((wide & 0x8000) << 16))}};
    }

    // Rounds to nearest, ties to even: in the normal range by adding just under half of the last bit kept (and that
    // bit), in the subnormal range by letting the adder round.
    KERNEL_INLINE static void store(Storage* to, const Block<kParts>& block) {
        const Words bits = (Words)block.part[0];
        const Words magnitude = bits & 0x7fffffff;
        const Mask is_nan = (Mask)magnitude > 0x7f800000;
        const Mask is_small = (Mask)magnitude < 0x38800000;
        // Below 2^-14 the quantum is 2^-24, the last bit of a float32 that lies in [0.5, 1).
        const Words subnormal = (Words)((Floats)magnitude + 0.5f) - 0x3f000000;
        const Words normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
        // 65520 and more round to infinity.
        const Mask overflows = (Mask)magnitude >= 0x477ff000;
        const Words zero = {};
        const Words special = is_nan ? zero + 0x7e00 : zero + 0x7c00;
        const Words chosen = overflows ? special : is_small ? subnormal : normal;
        *reinterpret_cast<HalvesInMemory*>(to) =
            __builtin_convertvector(chosen | ((bits >> 16) & 0x8000), Halves);
    }
#endif

    KERNEL_INLINE static Floats load_in_order(const Storage* from) { return load(from).part[0]; }
};

// `count` elements, fewer than a load moves, and `rest` in the other places.
template <typename Type>
KERNEL_INLINE Block<Type::kParts> load_tail(const typename Type::Storage* from, int64_t count,
                                            typename Type::Storage rest = {}) {
    typename Type::Storage padded[Type::kElements];
    for (int64_t i = 0; i < Type::kElements; ++i) {
        padded[i] = rest;
    }
    std::memcpy(padded, from, count * sizeof *padded);
    return Type::load(padded);
}

template <typename Type>
KERNEL_INLINE void store_tail(typename Type::Storage* to, const Block<Type::kParts>& block, int64_t count) {
    typename Type::Storage padded[Type::kElements];
    Type::store(padded, block);
    std::memcpy(to, padded, count * sizeof *padded);
}

// A whole block where there is one, and else the tail with zeros.
template <typename Type>
KERNEL_INLINE Block<Type::kParts> load_up_to(const typename Type::Storage* from, int64_t count) {
    return count < Type::kElements ? load_tail<Type>(from, count) : Type::load(from);
}

template <typename Type>
KERNEL_INLINE void store_up_to(typename Type::Storage* to, const Block<Type::kParts>& block, int64_t count) {
    if (count < Type::kElements) {
        store_tail<Type>(to, block, count);
    } else {
        Type::store(to, block);
    }
}

// Not zero in the places of `count` elements, fewer than a load moves.
template <typename Type>
KERNEL_INLINE Block<Type::kParts> places(int64_t count) {
    typename Type::Storage ones[Type::kElements];
    for (int64_t i = 0; i < Type::kElements; ++i) {
        ones[i] = Type::kOne;
    }
    return load_tail<Type>(ones, count);
}

// One element rounded, for what has one result a row.
template <typename Type>
KERNEL_INLINE void store_one(typename Type::Storage* to, float value) {
    Block<Type::kParts> block = {};
    block.part[0] = splat(value);
    store_tail<Type>(to, block, 1);
}

// The sum of term(x) over a row; `term` is a class whose operator() takes and gives a vector.
template <typename Type, typename Term>
KERNEL_INLINE float row_sum(const typename Type::Storage* row, int64_t length, const Term& term) {
    constexpr int64_t kBlocks = kChains / Type::kParts;
    Floats chains[kChains] = {};
    int64_t column = 0;
    for (; column + kBlocks * Type::kElements <= length; column += kBlocks * Type::kElements) {
        for (int64_t i = 0; i < kBlocks; ++i) {
            const Block<Type::kParts> block = Type::load(row + column + i * Type::kElements);
            for (int64_t part = 0; part < Type::kParts; ++part) {
                chains[i * Type::kParts + part] += term(block.part[part]);
            }
        }
    }
    for (; column + Type::kElements <= length; column += Type::kElements) {
        const Block<Type::kParts> block = Type::load(row + column);
        for (int64_t part = 0; part < Type::kParts; ++part) {
            chains[part] += term(block.part[part]);
        }
    }
    if (column < length) {
        const int64_t count = length - column;
        const Block<Type::kParts> block = load_tail<Type>(row + column, count);
        const Block<Type::kParts> present = places<Type>(count);
        for (int64_t part = 0; part < Type::kParts; ++part) {
            chains[part] += present.part[part] != 0.0f ? term(block.part[part]) : Floats{};
        }
    }
    return chains_sum(chains);
}

} // namespace KERNEL_ISA
