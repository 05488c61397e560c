// The functions that translated kernels are written with, with PyTorch's treatment of NaN, included by the body of a kernel
// once per instruction set. Owns: single numbers, and how pieces of a tensor come to and from float32. Never: knows an
// operation; there is no include guard because it is meant to be included again.
//
// Loops over a piece call these functions for one number at a time, and the compiler makes vectors of them.

namespace KERNEL_ISA {

// Elements that are looked at together: a few of these pieces lie in the first-level cache.
constexpr int64_t kChunk = 256;

KERNEL_INLINE float infinity() { return std::numeric_limits<float>::infinity(); }
KERNEL_INLINE float not_a_number() { return std::numeric_limits<float>::quiet_NaN(); }
KERNEL_INLINE bool is_nan(float value) { return value != value; }
KERNEL_INLINE bool is_infinite(float value) { return __builtin_fabsf(value) == infinity(); }

KERNEL_INLINE float magnitude(float value) { return __builtin_fabsf(value); }
KERNEL_INLINE long long magnitude(long long value) { return value < 0 ? -value : value; }
KERNEL_INLINE float sign_of(float value) {
    return static_cast<float>(value > 0.0f) - static_cast<float>(value < 0.0f);
}
KERNEL_INLINE long long sign_of(long long value) { return (value > 0) - (value < 0); }

KERNEL_INLINE float maximum(float a, float b) { return (a > b) | (a != a) ? a : b; }
KERNEL_INLINE float minimum(float a, float b) { return (a < b) | (a != a) ? a : b; }
KERNEL_INLINE long long maximum(long long a, long long b) { return a > b ? a : b; }
KERNEL_INLINE long long minimum(long long a, long long b) { return a < b ? a : b; }

KERNEL_INLINE float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

KERNEL_INLINE uint32_t to_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// As exponential() of exponentials.h, for any number: 2^n is multiplied in two halves, so that results may be subnormal.
KERNEL_INLINE float exponential(float value) {
    constexpr float kRounder = 0x1.8p23f;
    const float low = value < -104.0f ? -104.0f : value;
    const float bounded = low > 89.0f ? 89.0f : low;
    const float shifted = bounded * 1.44269504f + kRounder;
    const float n = shifted - kRounder;
    const float r = (bounded - n * 0.693145752f) - n * 1.42860682e-6f;
    float p = 0.0013814610429108143f * r + 0.008368710987269878f;
    p = p * r + 0.04166838899254799f;
    p = p * r + 0.1666652113199234f;
    p = p * r + 0.4999999403953552f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t exponent = static_cast<int32_t>(to_bits(shifted)) - 0x4b400000;
    const int32_t half = exponent >> 1;
    const float one = from_bits(static_cast<uint32_t>(half + 127) << 23);
    const float other = from_bits(static_cast<uint32_t>(exponent - half + 127) << 23);
    return p * one * other;
}

// Other kernels get the same bits, for the compiler fuses no product into a sum (-ffp-contract=off).
KERNEL_INLINE float sum_alike(float a, float b) { return a + b; }
KERNEL_INLINE float difference_alike(float a, float b) { return a - b; }

KERNEL_INLINE float logistic(float value) { return 1.0f / (1.0f + exponential(-value)); }

// A polynomial near zero, where the quotient would lose digits.
KERNEL_INLINE float hyperbolic_tangent(float value) {
    const float size = magnitude(value);
    const float z = value * value;
    float p = -5.70498872745e-3f * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float near = p * z * value + value;
    const float far = 1.0f - 2.0f / (exponential(size * 2.0f) + 1.0f);
    return size < 0.625f ? near : (value < 0.0f ? -far : far);
}

KERNEL_INLINE float exponential_less_one(float value) { return std::expm1(value); }
KERNEL_INLINE float power_of_two(float value) { return std::exp2(value); }
KERNEL_INLINE float logarithm(float value) { return std::log(value); }
KERNEL_INLINE float logarithm_of_one_plus(float value) { return std::log1p(value); }
KERNEL_INLINE float logarithm_2(float value) { return std::log2(value); }
KERNEL_INLINE float logarithm_10(float value) { return std::log10(value); }
KERNEL_INLINE float power(float base, float exponent) { return std::pow(base, exponent); }
KERNEL_INLINE float square_root(float value) { return __builtin_sqrtf(value); }
KERNEL_INLINE float inverse_root(float value) { return 1.0f / __builtin_sqrtf(value); }
KERNEL_INLINE float error_function(float value) { return std::erf(value); }
KERNEL_INLINE float error_complement(float value) { return std::erfc(value); }
KERNEL_INLINE float sine(float value) { return std::sin(value); }
KERNEL_INLINE float cosine(float value) { return std::cos(value); }
KERNEL_INLINE float tangent(float value) { return std::tan(value); }
KERNEL_INLINE float arcsine(float value) { return std::asin(value); }
KERNEL_INLINE float arccosine(float value) { return std::acos(value); }
KERNEL_INLINE float arctangent(float value) { return std::atan(value); }
KERNEL_INLINE float arctangent2(float y, float x) { return std::atan2(y, x); }
KERNEL_INLINE float hyperbolic_sine(float value) { return std::sinh(value); }
KERNEL_INLINE float hyperbolic_cosine(float value) { return std::cosh(value); }
KERNEL_INLINE float area_sine(float value) { return std::asinh(value); }
KERNEL_INLINE float area_cosine(float value) { return std::acosh(value); }
KERNEL_INLINE float area_tangent(float value) { return std::atanh(value); }
KERNEL_INLINE float rounded(float value) { return std::nearbyint(value); }
KERNEL_INLINE float rounded_down(float value) { return std::floor(value); }
KERNEL_INLINE float rounded_up(float value) { return std::ceil(value); }
KERNEL_INLINE float truncated_float(float value) { return std::trunc(value); }
KERNEL_INLINE long long truncated(float value) { return static_cast<long long>(value); }

// Divisions of Python: the quotient is rounded down, and the remainder has the sign of the divisor.
KERNEL_INLINE float remainder_of(float a, float b) {
    const float rest = std::fmod(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
KERNEL_INLINE long long remainder_of(long long a, long long b) {
    const long long rest = b == 0 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
KERNEL_INLINE float floor_quotient(float a, float b) {
    if (b == 0.0f) {
        return a / b;
    }
    const float exact = (a - remainder_of(a, b)) / b;
    const float whole = std::floor(exact);
    return exact - whole > 0.5f ? whole + 1.0f : whole;
}
KERNEL_INLINE long long floor_quotient(long long a, long long b) {
    return b == 0 ? 0 : (a - remainder_of(a, b)) / b;
}
KERNEL_INLINE float fmod_of(float a, float b) { return std::fmod(a, b); }
KERNEL_INLINE long long fmod_of(long long a, long long b) { return b == 0 ? 0 : a % b; }

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
struct Philox {
    uint32_t word[4];
};
KERNEL_INLINE Philox philox(Philox counter, uint32_t key, uint32_t other_key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t one = uint64_t{0xD2511F53} * counter.word[0];
        const uint64_t two = uint64_t{0xCD9E8D57} * counter.word[2];
        counter = {{static_cast<uint32_t>(two >> 32) ^ counter.word[1] ^ key, static_cast<uint32_t>(two),
                    static_cast<uint32_t>(one >> 32) ^ counter.word[3] ^ other_key, static_cast<uint32_t>(one)}};
        key += 0x9E3779B9;
        other_key += 0xBB67AE85;
    }
    return counter;
}
// 32 random bits for a place: as `_kept` of reference.py takes them.
KERNEL_INLINE long long random_bits(long long seed, long long place, long long stream) {
    const uint64_t key = static_cast<uint64_t>(seed), counter = static_cast<uint64_t>(place);
    const Philox first = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                           static_cast<uint32_t>(stream), 0}};
    return philox(first, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)).word[0];
}

// Single elements, for places that are computed.
KERNEL_INLINE float number_of(Float32, float value) { return value; }
KERNEL_INLINE float number_of(BFloat16, uint16_t value) { return from_bits(static_cast<uint32_t>(value) << 16); }
KERNEL_INLINE float number_of(Float16, uint16_t value) {
    const Block<1> block = load_tail<Float16>(&value, 1);
    return lanes_first(block.part[0]);
}
// Whole numbers and conditions, as they lie in memory.
template <typename Stored>
struct Whole {
    using Storage = Stored;
};
template <typename Stored>
KERNEL_INLINE long long number_of(Whole<Stored>, Stored value) {
    return static_cast<long long>(value);
}
KERNEL_INLINE bool number_of(Whole<bool>, bool value) { return value; }

template <typename Type>
KERNEL_INLINE auto element(const void* from, int64_t place) {
    return number_of(Type(), static_cast<const typename Type::Storage*>(from)[place]);
}

KERNEL_INLINE void store_in_order(Float32, float* to, Floats value) { store_floats(to, value); }
KERNEL_INLINE void store_in_order(Float16, uint16_t* to, Floats value) {
    Block<1> block;
    block.part[0] = value;
    Float16::store(to, block);
}
KERNEL_INLINE void store_in_order(BFloat16, uint16_t* to, Floats value) {
    *reinterpret_cast<HalvesInMemory*>(to) = __builtin_convertvector(BFloat16::rounded(value) >> 16, Halves);
}

// `count` elements from `place` on, `step` apart, as numbers.
template <typename Type, typename Number>
KERNEL_INLINE void fetch(Number* to, const void* tensor, int64_t place, int64_t step, int64_t count) {
    using Storage = typename Type::Storage;
    const Storage* const from = static_cast<const Storage*>(tensor) + place;
    if constexpr (std::is_same_v<Number, float>) {
        if (step == 1) {
            int64_t at = 0;
            for (; at + kLanes <= count; at += kLanes) {
                store_floats(to + at, Type::load_in_order(from + at));
            }
            if (at < count) {
                Storage rest[kLanes] = {};
                std::memcpy(rest, from + at, (count - at) * sizeof *rest);
                float numbers[kLanes];
                store_floats(numbers, Type::load_in_order(rest));
                std::memcpy(to + at, numbers, (count - at) * sizeof *numbers);
            }
            return;
        }
    }
    for (int64_t at = 0; at < count; ++at) {
        to[at] = number_of(Type(), from[at * step]);
    }
}

// `count` numbers to neighboring elements from `place` on.
template <typename Type, typename Number>
KERNEL_INLINE void keep(void* tensor, int64_t place, const Number* from, int64_t count) {
    using Storage = typename Type::Storage;
    Storage* const to = static_cast<Storage*>(tensor) + place;
    if constexpr (std::is_same_v<Number, float>) {
        int64_t at = 0;
        for (; at + kLanes <= count; at += kLanes) {
            store_in_order(Type(), to + at, load_floats(from + at));
        }
        if (at < count) {
            float numbers[kLanes] = {};
            std::memcpy(numbers, from + at, (count - at) * sizeof *numbers);
            Storage rest[kLanes];
            store_in_order(Type(), rest, load_floats(numbers));
            std::memcpy(to + at, rest, (count - at) * sizeof *rest);
        }
    } else {
        for (int64_t at = 0; at < count; ++at) {
            to[at] = static_cast<Storage>(from[at]);
        }
    }
}

// One number to one element.
template <typename Type, typename Number>
KERNEL_INLINE void keep_one(void* tensor, int64_t place, Number value) {
    keep<Type>(tensor, place, &value, 1);
}

// An element and its place: what is left of a search.
struct Found {
    float value;
    long long place;
};

// Each has the number that changes nothing, how two become one, and what sums are kept in.
struct Total {
    KERNEL_INLINE static double start(float) { return 0.0; }
    KERNEL_INLINE static long long start(long long) { return 0; }
    template <typename Value>
    KERNEL_INLINE static Value of(Value a, Value b) {
        return a + b;
    }
};

struct Product {
    KERNEL_INLINE static double start(float) { return 1.0; }
    KERNEL_INLINE static long long start(long long) { return 1; }
    template <typename Value>
    KERNEL_INLINE static Value of(Value a, Value b) {
        return a * b;
    }
};

struct Largest {
    KERNEL_INLINE static float start(float) { return -infinity(); }
    KERNEL_INLINE static long long start(long long) { return std::numeric_limits<long long>::min(); }
    template <typename Value>
    KERNEL_INLINE static Value of(Value a, Value b) {
        return maximum(a, b);
    }
};

struct Smallest {
    KERNEL_INLINE static float start(float) { return infinity(); }
    KERNEL_INLINE static long long start(long long) { return std::numeric_limits<long long>::max(); }
    template <typename Value>
    KERNEL_INLINE static Value of(Value a, Value b) {
        return minimum(a, b);
    }
};

struct PlaceOfLargest {
    KERNEL_INLINE static Found start(Found) { return {-infinity(), std::numeric_limits<long long>::max()}; }
    KERNEL_INLINE static Found of(Found a, Found b) {
        const bool is_same = a.value == b.value || (is_nan(a.value) && is_nan(b.value));
        const bool is_first = is_same ? a.place < b.place : a.value > b.value || is_nan(a.value);
        return is_first ? a : b;
    }
};

struct PlaceOfSmallest {
    KERNEL_INLINE static Found start(Found) { return {infinity(), std::numeric_limits<long long>::max()}; }
    KERNEL_INLINE static Found of(Found a, Found b) {
        const bool is_same = a.value == b.value || (is_nan(a.value) && is_nan(b.value));
        const bool is_first = is_same ? a.place < b.place : a.value < b.value || is_nan(a.value);
        return is_first ? a : b;
    }
};

// Elements of which there are `count`, and the squares of their differences from their mean, added up.
struct Moments {
    double count;
    double mean;
    double squares;
};

// Squares of differences from a mean that is known at the end: an element at a time (Welford), or two parts as one (Chan,
// Golub and LeVeque).
struct Squares {
    KERNEL_INLINE static Moments start(float) { return {0.0, 0.0, 0.0}; }
    KERNEL_INLINE static Moments of(Moments a, float value) {
        const double count = a.count + 1.0;
        const double difference = value - a.mean;
        const double mean = a.mean + difference / count;
        return {count, mean, a.squares + difference * (value - mean)};
    }
    KERNEL_INLINE static Moments of(Moments a, Moments b) {
        const double count = a.count + b.count;
        const double share = count > 0.0 ? b.count / count : 0.0;
        const double difference = b.count > 0.0 ? b.mean - a.mean : 0.0;
        return {count, a.mean + difference * share, a.squares + b.squares + difference * difference * (a.count * share)};
    }
};

KERNEL_INLINE double mean_of(Moments found) {
    return found.count > 0.0 ? found.mean : not_a_number();
}

// Numbers of a piece joined to what is known: in several chains, so that no step waits for the one before.
template <typename Join, typename Known, typename Number>
KERNEL_INLINE Known joined_with(Known known, const Number* numbers, int64_t count) {
    if constexpr (std::is_same_v<Number, float>) {
        constexpr int64_t kChainsOfPiece = 32;
        float chains[kChainsOfPiece];
        for (int64_t chain = 0; chain < kChainsOfPiece; ++chain) {
            chains[chain] = static_cast<float>(Join::start(0.0f));
        }
        int64_t at = 0;
        for (; at + kChainsOfPiece <= count; at += kChainsOfPiece) {
            for (int64_t chain = 0; chain < kChainsOfPiece; ++chain) {
                chains[chain] = Join::of(chains[chain], numbers[at + chain]);
            }
        }
        for (; at < count; ++at) {
            known = Join::of(known, static_cast<Known>(numbers[at]));
        }
        for (int64_t chain = 0; chain < kChainsOfPiece; ++chain) {
            known = Join::of(known, static_cast<Known>(chains[chain]));
        }
    } else {
        for (int64_t at = 0; at < count; ++at) {
            known = Join::of(known, static_cast<Known>(numbers[at]));
        }
    }
    return known;
}

// The squares of a piece, which is at hand, in two passes over it.
template <typename Join>
KERNEL_INLINE Moments joined_with(Moments known, const float* numbers, int64_t count) {
    constexpr int64_t kChainsOfPiece = 16;
    double sums[kChainsOfPiece] = {};
    double squares[kChainsOfPiece] = {};
    const int64_t whole = count - count % kChainsOfPiece;
    for (int64_t at = 0; at < whole; at += kChainsOfPiece) {
        for (int64_t chain = 0; chain < kChainsOfPiece; ++chain) {
            sums[chain] += numbers[at + chain];
        }
    }
    for (int64_t at = whole; at < count; ++at) {
        sums[at - whole] += numbers[at];
    }
    Moments piece{static_cast<double>(count), 0.0, 0.0};
    for (int64_t chain = 0; chain < kChainsOfPiece; ++chain) {
        piece.mean += sums[chain];
    }
    piece.mean = count > 0 ? piece.mean / static_cast<double>(count) : 0.0;
    for (int64_t at = 0; at < whole; at += kChainsOfPiece) {
        for (int64_t chain = 0; chain < kChainsOfPiece; ++chain) {
            const double difference = numbers[at + chain] - piece.mean;
            squares[chain] += difference * difference;
        }
    }
    for (int64_t at = whole; at < count; ++at) {
        const double difference = numbers[at] - piece.mean;
        squares[at - whole] += difference * difference;
    }
    for (int64_t chain = 0; chain < kChainsOfPiece; ++chain) {
        piece.squares += squares[chain];
    }
    return Join::of(known, piece);
}

} // namespace KERNEL_ISA
