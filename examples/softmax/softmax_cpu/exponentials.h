// Exponentials and their sums, included by the body of a kernel once per instruction set.
// Owns: powers of e that are 1 at most, the logarithm of a sum, and sums of exponentials of rows. Never: knows an
// operation, calls the C library's functions, which are others in each of its versions.

namespace KERNEL_ISA {

// With n = round(x / ln 2) and r = x - n ln 2, |r| <= 0.35, e^x is 2^n e^r. Adding 1.5 * 2^23 rounds to an integer that
// stands in the low bits of the sum. ln 2 has two parts, of which the first ends in zeros: its product with n is exact.
// The polynomial is e^r = 1 + r + r^2 (c2 + ... + c6 r^4), fitted to a largest error of 3.1e-9 of e^r, exact at r = 0.
struct Reduced {
    Floats r;
    Floats scale;
};

KERNEL_INLINE Reduced reduced(Floats value) {
    constexpr float kRounder = 0x1.8p23f;
    const Floats rounded = multiply_add(value, splat(1.44269504f), splat(kRounder));
    const Floats n = rounded - kRounder;
    const Floats r = multiply_add(n, splat(-0.693145752f), value);
    return {multiply_add(n, splat(-1.42860682e-6f), r), (Floats)(((Words)rounded << 23) + 0x3f800000)};
}

KERNEL_INLINE Floats expanded(const Reduced& of) {
    Floats p = multiply_add(splat(0.0013814610429108143f), of.r, splat(0.008368710987269878f));
    p = multiply_add(p, of.r, splat(0.04166838899254799f));
    p = multiply_add(p, of.r, splat(0.1666652113199234f));
    p = multiply_add(p, of.r, splat(0.4999999403953552f));
    p = multiply_add(p, of.r, splat(1.0f));
    p = multiply_add(p, of.r, splat(1.0f));
    return p * of.scale;
}

// Below it a power of e is no normal float32.
constexpr float kLeastExponent = -87.3365f;

// e^value for a value of at most 0, NaN for NaN. Results below 2^-126 are zero, which spares subnormal numbers. Error:
// 0.9 units in the last place, 1.2 where the instruction set has no fused multiplication (measured through all
// magnitudes).
KERNEL_INLINE Floats exponential(Floats value) {
    return value < kLeastExponent ? Floats{} : expanded(reduced(value));
}

// e^(high + low), where `low` is what rounding took from `high`, or 1/1000 of it at most.
KERNEL_INLINE Floats exponential_of_sum(Floats high, Floats low) {
    Reduced of = reduced(high);
    of.r += low;
    return high < kLeastExponent ? Floats{} : expanded(of);
}

// The natural logarithm of 0, of a number of at least 2^-126, or of NaN, to 2e-12 of it: for one number a row.
// ln m = 2 artanh((m - 1) / (m + 1)), for a mantissa m between sqrt(1/2) and sqrt(2).
inline double logarithm(float value) {
    if (value == 0.0f) {
        return -static_cast<double>(kInfinity);
    }
    if (!(value < kInfinity)) {
        return static_cast<double>(value);
    }
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    // What is above 0.7071 keeps its exponent.
    const uint32_t shifted = bits - 0x3f3504f3;
    const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
    bits = (shifted & 0x007fffff) + 0x3f3504f3;
    float mantissa;
    std::memcpy(&mantissa, &bits, sizeof mantissa);
    const double s = (static_cast<double>(mantissa) - 1.0) / (static_cast<double>(mantissa) + 1.0);
    const double q = s * s;
    const double series =
        1.0 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q * (1.0 / 11 + q * (1.0 / 13))))));
    return 2.0 * s * series + exponent * 0.693147180559945309;
}

// The largest element; where one is NaN, any.
template <typename Type>
KERNEL_INLINE float row_largest(const typename Type::Storage* row, int64_t length) {
    constexpr int64_t kBlocks = kChains / Type::kParts;
    Floats chains[kChains];
    for (int64_t i = 0; i < kChains; ++i) {
        chains[i] = splat(-kInfinity);
    }
    int64_t column = 0;
    for (; column + kBlocks * Type::kElements <= length; column += kBlocks * Type::kElements) {
        for (int64_t i = 0; i < kBlocks; ++i) {
            const Block<Type::kParts> block = Type::load(row + column + i * Type::kElements);
            for (int64_t part = 0; part < Type::kParts; ++part) {
                Floats& chain = chains[i * Type::kParts + part];
                chain = larger(block.part[part], chain);
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
        }
    }
    return chains_largest(chains);
}

struct ExponentialAbove {
    Floats shift;
    KERNEL_INLINE Floats operator()(Floats value) const { return exponential(value - shift); }
};

// The largest element of a row, and the sum of the exponentials of all elements less it. The sum is NaN where PyTorch's
// is: where there is a NaN or a positive infinity, or nothing but negative ones.
struct ExponentialSum {
    float largest;
    float sum;
};

// A row is read once from memory: its pieces are read twice while they lie in the first-level cache.
template <typename Type>
KERNEL_INLINE ExponentialSum exponential_sum(const typename Type::Storage* row, int64_t length) {
    constexpr int64_t kPiece = 16384 / sizeof(typename Type::Storage);
    ExponentialSum found = {-kInfinity, 0.0f};
    for (int64_t first = 0; first < length; first += kPiece) {
        const int64_t count = length - first < kPiece ? length - first : kPiece;
        const float of_piece = row_largest<Type>(row + first, count);
        const float largest = of_piece > found.largest ? of_piece : found.largest;
        // So that nothing but negative infinities is a sum of 0, whatever follows.
        const float shift = largest > -kInfinity ? largest : std::numeric_limits<float>::lowest();
        const float sum = row_sum<Type>(row + first, count, ExponentialAbove{splat(shift)});
        if (first > 0 && found.largest < largest) {
            found.sum *= lanes_first(exponential(splat(found.largest - largest)));
        }
        found = {largest, found.sum + sum};
    }
    if (found.largest == -kInfinity) {
        found.sum = std::numeric_limits<float>::quiet_NaN();
    }
    return found;
}

} // namespace KERNEL_ISA
