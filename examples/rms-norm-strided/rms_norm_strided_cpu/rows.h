// The body of the CPU kernel, included by rms_norm.cpp once per instruction set. Owns: the arithmetic of a row.
// Never: chooses the instruction set or the type; there is no include guard because it is meant to be included again.
//
// KERNEL_ISA names the namespace, KERNEL_TARGET is the attribute that lets the compiler use the set, KERNEL_LANES is how
// many floats one of its registers holds, and KERNEL_CONVERTS_FLOAT16 says whether it converts float16. The vectors are
// the compiler's own, so one text serves AVX-512, AVX2, SSE2 and NEON.

namespace KERNEL_ISA {

constexpr int64_t kLanes = KERNEL_LANES;

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
typedef int32_t Mask __attribute__((vector_size(kLanes * 4)));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));

// The same vectors where they lie in a tensor, at any address. (Copying with memcpy instead goes through the stack in
// narrower pieces with gcc 12: eighteen times slower with AVX2.)
typedef float FloatsInMemory __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef uint32_t WordsInMemory __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef uint16_t HalvesInMemory __attribute__((vector_size(kLanes * 2), aligned(1), may_alias));

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

    KERNEL_TARGET static inline Block<kParts> load(const Storage* from) {
        return {{*reinterpret_cast<const FloatsInMemory*>(from)}};
    }

    KERNEL_TARGET static inline void store(Storage* to, const Block<kParts>& block) {
        *reinterpret_cast<FloatsInMemory*>(to) = block.part[0];
    }
};

// A bfloat16 is the upper half of a float32. Two of them lie in a 32-bit word: a shift makes a float32 of one, a mask of
// the other, which needs no rearranging of lanes.
struct BFloat16 {
    using Storage = uint16_t;
    static constexpr int64_t kParts = 2;
    static constexpr int64_t kElements = 2 * kLanes;

    KERNEL_TARGET static inline Block<kParts> load(const Storage* from) {
        const Words words = *reinterpret_cast<const WordsInMemory*>(from);
        return {{(Floats)(words << 16), (Floats)(words & 0xffff0000)}};
    }

    KERNEL_TARGET static inline void store(Storage* to, const Block<kParts>& block) {
        *reinterpret_cast<WordsInMemory*>(to) =
            (rounded(block.part[0]) >> 16) | (rounded(block.part[1]) & 0xffff0000);
    }

    // The upper half of the result is the bfloat16, to nearest, ties to even. A NaN keeps its sign and becomes quiet, so
    // that rounding cannot make it infinite.
    KERNEL_TARGET static inline Words rounded(const Floats& value) {
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

#if KERNEL_CONVERTS_FLOAT16 && KERNEL_LANES == 16
    // The zero-masking form: gcc 12 warns of an uninitialised value inside its own header for the plain one.
    static constexpr __mmask16 kAllLanes = 0xffff;

    KERNEL_TARGET static inline Block<kParts> load(const Storage* from) {
        const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        return {{(Floats)_mm512_maskz_cvtph_ps(kAllLanes, halves)}};
    }

    KERNEL_TARGET static inline void store(Storage* to, const Block<kParts>& block) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm512_maskz_cvtps_ph(kAllLanes, (__m512)block.part[0], _MM_FROUND_TO_NEAREST_INT));
    }
#elif KERNEL_CONVERTS_FLOAT16 && KERNEL_LANES == 8
    KERNEL_TARGET static inline Block<kParts> load(const Storage* from) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        return {{(Floats)_mm256_cvtph_ps(halves)}};
    }

    KERNEL_TARGET static inline void store(Storage* to, const Block<kParts>& block) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                         _mm256_cvtps_ph((__m256)block.part[0], _MM_FROUND_TO_NEAREST_INT));
    }
#else
    // A float16 moved to the exponent field of a float32 is too small by 2^112, subnormal numbers included, so one exact
    // multiplication converts both; infinities and NaNs get the exponent of their new format.
    KERNEL_TARGET static inline Block<kParts> load(const Storage* from) {
        const Halves halves = *reinterpret_cast<const HalvesInMemory*>(from);
        const Words wide = __builtin_convertvector(halves, Words);
        const Words magnitude = (wide & 0x7fff) << 13;
        const Words finite = (Words)((Floats)magnitude * 0x1p112f);
        const Words special = magnitude | 0x7f800000;
        const Mask is_special = (Mask)magnitude >= 0x0f800000;
        return {{(Floats)((is_special ? special : finite) | ((wide & 0x8000) << 16))}};
    }

    // Rounds to nearest, ties to even: in the normal range by adding just under half of the last bit kept (and that bit),
    // in the subnormal range by letting the adder round.
    KERNEL_TARGET static inline void store(Storage* to, const Block<kParts>& block) {
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
};

template <typename Type>
KERNEL_TARGET inline Block<Type::kParts> load_tail(const typename Type::Storage* from, int64_t count) {
    typename Type::Storage padded[Type::kElements] = {};
    std::memcpy(padded, from, count * sizeof *padded);
    return Type::load(padded);
}

// Several sums of kLanes lanes each, then a tree: a row of n elements passes through n / 64 (SSE2: n / 32) additions in
// sequence, which keeps the rounding error of long rows small and hides the latency of the adder.
template <typename Type>
KERNEL_TARGET inline float square_sum(const typename Type::Storage* row, int64_t hidden) {
    constexpr int64_t kSums = kLanes == 16 ? 4 : 8;
    constexpr int64_t kBlocks = kSums / Type::kParts;
    Floats sums[kSums] = {};
    int64_t column = 0;
    for (; column + kBlocks * Type::kElements <= hidden; column += kBlocks * Type::kElements) {
        for (int64_t i = 0; i < kBlocks; ++i) {
            const Block<Type::kParts> block = Type::load(row + column + i * Type::kElements);
            for (int64_t part = 0; part < Type::kParts; ++part) {
                sums[i * Type::kParts + part] += block.part[part] * block.part[part];
            }
        }
    }
    for (; column < hidden; column += Type::kElements) {
        const int64_t count = hidden - column;
        const Block<Type::kParts> block =
            count < Type::kElements ? load_tail<Type>(row + column, count) : Type::load(row + column);
        for (int64_t part = 0; part < Type::kParts; ++part) {
            sums[part] += block.part[part] * block.part[part];
        }
    }
    for (int64_t width = kSums / 2; width > 0; width /= 2) {
        for (int64_t i = 0; i < width; ++i) {
            sums[i] += sums[i + width];
        }
    }
    float lanes[kLanes];
    std::memcpy(lanes, sums, sizeof lanes);
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (int64_t i = 0; i < width; ++i) {
            lanes[i] += lanes[i + width];
        }
    }
    return lanes[0];
}

template <typename Type>
KERNEL_TARGET inline Block<Type::kParts> scaled(const Block<Type::kParts>& block, const Block<Type::kParts>& weight,
                                                float scale) {
    Block<Type::kParts> result;
    for (int64_t part = 0; part < Type::kParts; ++part) {
        result.part[part] = block.part[part] * scale * weight.part[part];
    }
    return result;
}

template <typename Type>
KERNEL_TARGET inline void scale_row(typename Type::Storage* out, const typename Type::Storage* row,
                                    const typename Type::Storage* weight, int64_t hidden, float scale) {
    int64_t column = 0;
    for (; column + Type::kElements <= hidden; column += Type::kElements) {
        Type::store(out + column, scaled<Type>(Type::load(row + column), Type::load(weight + column), scale));
    }
    if (column < hidden) {
        const int64_t count = hidden - column;
        typename Type::Storage tail[Type::kElements];
        Type::store(tail, scaled<Type>(load_tail<Type>(row + column, count), load_tail<Type>(weight + column, count),
                                       scale));
        std::memcpy(out + column, tail, count * sizeof *tail);
    }
}

template <typename Type>
KERNEL_TARGET void rows(void* out, const void* input, const void* weight, int64_t first_row, int64_t last_row, int64_t hidden,
          int64_t out_row_stride, int64_t input_row_stride, float eps) {
    using Storage = typename Type::Storage;
    for (int64_t row = first_row; row < last_row; ++row) {
        const Storage* from = static_cast<const Storage*>(input) + row * input_row_stride;
        const float mean = square_sum<Type>(from, hidden) / static_cast<float>(hidden);
        const float scale = 1.0f / std::sqrt(mean + eps);
        scale_row<Type>(static_cast<Storage*>(out) + row * out_row_stride, from, static_cast<const Storage*>(weight),
                        hidden, scale);
    }
}

inline RowsFunction select(RmsNormDtype dtype) {
    switch (dtype) {
    case RmsNormDtype::kFloat32:
        return rows<Float32>;
    case RmsNormDtype::kFloat16:
        return rows<Float16>;
    case RmsNormDtype::kBFloat16:
        return rows<BFloat16>;
    }
    return nullptr;
}

} // namespace KERNEL_ISA
