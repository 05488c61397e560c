// Elements of float32 and of the 8-bit formats E4M3 and E5M2 as float; loads are exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "add_scale.h"

struct Float32 {
    using Storage = float;
    static float load(Storage value) { return value; }
    static Storage store(float value) { return value; }
};

// One sign bit, kExponent bits of exponent, kMantissa of mantissa. Values are rounded to nearest, ties to even, and
// saturate at the largest finite one.
template <int kExponent, int kMantissa>
struct Float8 {
    using Storage = uint8_t;
    static constexpr int kBias = (1 << (kExponent - 1)) - 1;
    // E4M3 gives up its infinities for one more power of two.
    static constexpr uint8_t kLargest = kExponent == 4 ? 0x7e : 0x7b;

    static float load(Storage bits) {
        const int exponent = (bits & 0x7f) >> kMantissa;
        const int mantissa = bits & ((1 << kMantissa) - 1);
        float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa)
                                   : std::ldexp(1.0f + std::ldexp(static_cast<float>(mantissa), -kMantissa),
                                                exponent - kBias);
        if ((bits & 0x7f) > kLargest) {
            size = kExponent == 5 && mantissa == 0 ? std::numeric_limits<float>::infinity()
                                                   : std::numeric_limits<float>::quiet_NaN();
        }
        return (bits & 0x80) != 0 ? -size : size;
    }

    static Storage store(float value) {
        const uint8_t sign = std::signbit(value) ? 0x80 : 0;
        if (std::isnan(value)) {
            return sign | 0x7f;
        }
        const float size = std::fabs(value);
        if (size >= load(kLargest)) {
            return sign | kLargest;
        }
        const int exponent = size == 0.0f ? 1 - kBias : std::max(std::ilogb(size), 1 - kBias);
        // In units of the spacing at this size; nearbyint rounds ties to even.
        const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, kMantissa - exponent)));
        const int bits = ((exponent + kBias - 1) << kMantissa) + steps;
        return sign | static_cast<uint8_t>(std::min<int>(bits, kLargest));
    }
};

using Float8E4M3 = Float8<4, 3>;
using Float8E5M2 = Float8<5, 2>;
