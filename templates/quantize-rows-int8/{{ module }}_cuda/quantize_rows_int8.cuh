// Quantisation of rows to 8-bit integers, with a scale for each.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight in a row that is read twice. STREAM: whether what is not read again
// is marked so, and leaves the caches first.

#include "quantized_row.cuh"

namespace quantize_rows_int8 {

// In which products of 8 bits and of T's are exact, and their difference.
template <int kBytes>
struct Decider;
template <>
struct Decider<2> {
    using Type = float;
};
template <>
struct Decider<4> {
    using Type = double;
};

// Turns the values of a row into bytes, given the bits of the largest size in it, as if the quotient were exact: one
// that lies halfway between two integers becomes the even one. The float32 quotient is off by 2^-16 at most; where it
// is nearer than 2^-14 to halfway, products decide that are exact in Wide.
template <typename T>
struct Coder {
    using Wide = typename Decider<sizeof(T)>::Type;
    float scale;
    // A power of two that keeps factor and products in range.
    float lift;
    float largest;
    float factor;

    __device__ explicit Coder(uint32_t bits) {
        const float found = __uint_as_float(bits);
        scale = found / 127.0f;
        lift = found < 0x1p-100f ? 0x1p100f : found > 0x1p100f ? 0x1p-100f : 1.0f;
        largest = found * lift;
        // No row of zeros has another value, and one that is not finite becomes zeros.
        factor = found > 0.0f && bits < 0x7f800000u ? 127.0f / largest : 0.0f;
    }
    // In the lowest byte; the others are anything.
    __device__ __forceinline__ uint32_t coded(float value) const {
        // Adding it rounds to an integer, which is then in the lowest bits.
        constexpr float kMagic = 12582912.0f;
        const float lifted = value * lift;
        const float quotient = lifted * factor;
        const float sum = quotient + kMagic;
        const float off = quotient - (sum - kMagic);
        if (fabsf(off) <= 0.5f - 0x1p-14f) {
            return __float_as_uint(sum);
        }
        return factor == 0.0f ? 0 : halfway(lifted, floorf(quotient));
    }
    // Of the integer below and the one above.
    __device__ __forceinline__ uint32_t halfway(float lifted, float below) const {
        const Wide over = Wide(254) * Wide(lifted) - Wide(2.0f * below + 1.0f) * Wide(largest);
        const int low = static_cast<int>(below);
        return static_cast<uint32_t>(low + (over > Wide(0) || (over == Wide(0) && low % 2 != 0) ? 1 : 0));
    }
    __device__ __forceinline__ uint32_t four(float a, float b, float c, float d) const {
        const uint32_t low = __byte_perm(coded(a), coded(b), 0x0040);
        const uint32_t high = __byte_perm(coded(c), coded(d), 0x0040);
        return __byte_perm(low, high, 0x5410);
    }
    __device__ __forceinline__ uint8_t one(float value) const { return static_cast<uint8_t>(coded(value)); }
};

// Rows that their threads hold.
template <typename T, int kUnits, int kLanes>
__global__ void __launch_bounds__(kLanes > quantized_row::kWarp ? kLanes : 128)
    held(signed char* q, float* scale, const T* input, long long rows, int hidden) {
    quantized_row::held<Coder<T>, kUnits, kLanes>(q, scale, input, rows, hidden);
}

// Rows of any length that their threads hold.
template <typename T, int kUnits, int kLanes>
__global__ void __launch_bounds__(kLanes > quantized_row::kWarp ? kLanes : 128)
    shifted(signed char* q, float* scale, const T* input, long long rows, int hidden) {
    quantized_row::shifted<Coder<T>, kUnits, kLanes>(q, scale, input, rows, hidden);
}

// Any row: for the largest size, and for the results.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock) read_twice(signed char* q, float* scale, const T* input, long long hidden) {
    quantized_row::read_twice<Coder<T>, kBlock>(q, scale, input, hidden);
}

}  // namespace quantize_rows_int8
