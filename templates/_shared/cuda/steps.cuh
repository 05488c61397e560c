// The functions that translated kernels are written with, with PyTorch's treatment of NaN, and packs of elements.
// Owns: single numbers and neighbors in memory. Never: a thread's place, a kernel.

#pragma once

#include "vector.cuh"

namespace steps {

using vector::from_float;
using vector::to_float;

// Neighboring elements that one access moves where their address is a multiple of their bytes.
template <typename T, int kElements>
struct alignas(sizeof(T) * kElements) Pack {
    T elements[kElements];
};

template <int kElements, typename T>
__device__ __forceinline__ Pack<T, kElements> load(const T* from) {
    return *reinterpret_cast<const Pack<T, kElements>*>(from);
}

template <typename T, int kElements>
__device__ __forceinline__ void store(T* to, const Pack<T, kElements>& pack) {
    *reinterpret_cast<Pack<T, kElements>*>(to) = pack;
}

// What a number is computed in: float, long long or bool.
__device__ __forceinline__ float number(float value) { return value; }
__device__ __forceinline__ float number(__half value) { return to_float(value); }
__device__ __forceinline__ float number(__nv_bfloat16 value) { return to_float(value); }
__device__ __forceinline__ long long number(long long value) { return value; }
__device__ __forceinline__ long long number(int value) { return value; }
__device__ __forceinline__ long long number(short value) { return value; }
__device__ __forceinline__ long long number(signed char value) { return value; }
__device__ __forceinline__ bool number(bool value) { return value; }

__device__ __forceinline__ void put(float value, float& to) { to = value; }
__device__ __forceinline__ void put(float value, __half& to) { from_float(value, to); }
__device__ __forceinline__ void put(float value, __nv_bfloat16& to) { from_float(value, to); }
template <typename T>
__device__ __forceinline__ void put(long long value, T& to) {
    to = static_cast<T>(value);
}
__device__ __forceinline__ void put(bool value, bool& to) { to = value; }

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7fffffff); }
__device__ __forceinline__ bool is_nan(float value) { return value != value; }
__device__ __forceinline__ bool is_infinite(float value) { return fabsf(value) == infinity(); }

__device__ __forceinline__ float magnitude(float value) { return fabsf(value); }
__device__ __forceinline__ long long magnitude(long long value) { return value < 0 ? -value : value; }
__device__ __forceinline__ float sign_of(float value) {
    return static_cast<float>(value > 0.0f) - static_cast<float>(value < 0.0f);
}
__device__ __forceinline__ long long sign_of(long long value) { return (value > 0) - (value < 0); }

__device__ __forceinline__ float maximum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
#else
    return a > b || is_nan(a) ? a : b;
#endif
}
__device__ __forceinline__ float minimum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    return smaller;
#else
    return a < b || is_nan(a) ? a : b;
#endif
}
__device__ __forceinline__ long long maximum(long long a, long long b) { return a > b ? a : b; }
__device__ __forceinline__ long long minimum(long long a, long long b) { return a < b ? a : b; }

// No product is fused into these, so that all kernels get the same bits.
__device__ __forceinline__ float sum_alike(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float difference_alike(float a, float b) { return __fsub_rn(a, b); }

__device__ __forceinline__ float exponential(float value) { return expf(value); }
__device__ __forceinline__ float exponential_less_one(float value) { return expm1f(value); }
__device__ __forceinline__ float power_of_two(float value) { return exp2f(value); }
__device__ __forceinline__ float logarithm(float value) { return logf(value); }
__device__ __forceinline__ float logarithm_of_one_plus(float value) { return log1pf(value); }
__device__ __forceinline__ float logarithm_2(float value) { return log2f(value); }
__device__ __forceinline__ float logarithm_10(float value) { return log10f(value); }
__device__ __forceinline__ float power(float base, float exponent) { return powf(base, exponent); }
__device__ __forceinline__ float square_root(float value) { return sqrtf(value); }
__device__ __forceinline__ float inverse_root(float value) { return 1.0f / sqrtf(value); }
__device__ __forceinline__ float logistic(float value) { return 1.0f / (1.0f + expf(-value)); }
__device__ __forceinline__ float error_function(float value) { return erff(value); }
__device__ __forceinline__ float error_complement(float value) { return erfcf(value); }
__device__ __forceinline__ float sine(float value) { return sinf(value); }
__device__ __forceinline__ float cosine(float value) { return cosf(value); }
__device__ __forceinline__ float tangent(float value) { return tanf(value); }
__device__ __forceinline__ float arcsine(float value) { return asinf(value); }
__device__ __forceinline__ float arccosine(float value) { return acosf(value); }
__device__ __forceinline__ float arctangent(float value) { return atanf(value); }
__device__ __forceinline__ float arctangent2(float y, float x) { return atan2f(y, x); }
__device__ __forceinline__ float hyperbolic_sine(float value) { return sinhf(value); }
__device__ __forceinline__ float hyperbolic_cosine(float value) { return coshf(value); }
__device__ __forceinline__ float hyperbolic_tangent(float value) { return tanhf(value); }
__device__ __forceinline__ float area_sine(float value) { return asinhf(value); }
__device__ __forceinline__ float area_cosine(float value) { return acoshf(value); }
__device__ __forceinline__ float area_tangent(float value) { return atanhf(value); }
__device__ __forceinline__ float rounded(float value) { return rintf(value); }
__device__ __forceinline__ float rounded_down(float value) { return floorf(value); }
__device__ __forceinline__ float rounded_up(float value) { return ceilf(value); }
__device__ __forceinline__ float truncated_float(float value) { return truncf(value); }
__device__ __forceinline__ long long truncated(float value) { return static_cast<long long>(value); }

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
struct Philox {
    unsigned word[4];
};
__device__ __forceinline__ Philox philox(Philox counter, unsigned key, unsigned other_key) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned one = __umulhi(0xD2511F53u, counter.word[0]);
        const unsigned two = __umulhi(0xCD9E8D57u, counter.word[2]);
        counter = {{two ^ counter.word[1] ^ key, 0xCD9E8D57u * counter.word[2], one ^ counter.word[3] ^ other_key,
                    0xD2511F53u * counter.word[0]}};
        key += 0x9E3779B9u;
        other_key += 0xBB67AE85u;
    }
    return counter;
}
// 32 random bits for a place: as `_kept` of reference.py takes them.
__device__ __forceinline__ long long random_bits(long long seed, long long place, long long stream) {
    const unsigned long long key = static_cast<unsigned long long>(seed), counter = static_cast<unsigned long long>(place);
    const Philox first = {{static_cast<unsigned>(counter), static_cast<unsigned>(counter >> 32),
                           static_cast<unsigned>(stream), 0u}};
    return philox(first, static_cast<unsigned>(key), static_cast<unsigned>(key >> 32)).word[0];
}

// As exact as a result of T needs it: with 16 bits, where two units in the 20th place are far too small to see, in fewer
// instructions.
template <typename T>
__device__ __forceinline__ float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) < 4) {
        float result;
        asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
        return result;
    }
#endif
    return a / b;
}
template <typename T>
__device__ __forceinline__ float logistic(float value) {
    return quotient<T>(1.0f, 1.0f + expf(-value));
}
template <typename T>
__device__ __forceinline__ float exponential_less_one(float value) {
    if constexpr (sizeof(T) < 4) {
        // Near 0 the difference has too few digits.
        const float rest = 0.041666667f + value * (0.0083333333f + value * 0.0013888889f);
        const float near = value + value * value * (0.5f + value * (0.16666667f + value * rest));
        return fabsf(value) < 0.25f ? near : expf(value) - 1.0f;
    } else {
        return expm1f(value);
    }
}
template <typename T>
__device__ __forceinline__ float logarithm_of_one_plus(float value) {
    if constexpr (sizeof(T) < 4) {
        const float rest = 0.2f + value * (-0.16666667f + value * (0.14285714f - value * 0.125f));
        const float near = value + value * value * (-0.5f + value * (0.33333333f + value * (-0.25f + value * rest)));
        return fabsf(value) < 0.125f ? near : __logf(1.0f + value);
    } else {
        return log1pf(value);
    }
}
template <typename T>
__device__ __forceinline__ float logarithm(float value) {
    if constexpr (sizeof(T) < 4) {
        return fabsf(value - 1.0f) < 0.125f ? logarithm_of_one_plus<T>(value - 1.0f) : __logf(value);
    } else {
        return logf(value);
    }
}
template <typename T>
__device__ __forceinline__ float error_complement(float value) {
    if constexpr (sizeof(T) < 4) {
        if (value > 4.0f) {
            return erfcf(value);
        }
        // With t = 1 / (1 + |value| / 2), log(erfc / t) + value^2 is nearly a polynomial of t, fitted to 2e-7.
        const float size = fabsf(value);
        const float t = __fdividef(1.0f, 1.0f + 0.5f * size);
        const float high = -1.86218225f + t * (1.54556023f + t * (-0.589286631f + t * 0.0856283757f));
        const float low = 0.444995244f + t * (-0.259143603f + t * (0.907374445f + t * high));
        const float power = -1.26514906f + t * (0.992203106f + t * low);
        const float tail = t * expf(power - size * size);
        return value < 0.0f ? 2.0f - tail : tail;
    } else {
        return erfcf(value);
    }
}
template <typename T>
__device__ __forceinline__ float error_function(float value) {
    if constexpr (sizeof(T) < 4) {
        const float size = fabsf(value);
        const float square = value * value;
        // The first terms of the series at 0, where a difference from 1 has too few digits.
        const float rest = 0.11283792f + square * (-0.026866170f + square * 0.0052239776f);
        const float near = value * (1.1283792f + square * (-0.37612639f + square * rest));
        return size < 0.5f ? near : copysignf(1.0f - error_complement<T>(size), value);
    } else {
        return erff(value);
    }
}

// Divisions of Python: the quotient is rounded down, and the remainder has the sign of the divisor.
__device__ __forceinline__ float remainder_of(float a, float b) {
    const float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
__device__ __forceinline__ long long remainder_of(long long a, long long b) {
    const long long rest = b == 0 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
__device__ __forceinline__ float floor_quotient(float a, float b) {
    if (b == 0.0f) {
        return a / b;
    }
    const float exact = (a - remainder_of(a, b)) / b;
    const float whole = floorf(exact);
    return exact - whole > 0.5f ? whole + 1.0f : whole;
}
__device__ __forceinline__ long long floor_quotient(long long a, long long b) {
    return b == 0 ? 0 : (a - remainder_of(a, b)) / b;
}
__device__ __forceinline__ float fmod_of(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ long long fmod_of(long long a, long long b) { return b == 0 ? 0 : a % b; }

}  // namespace steps
