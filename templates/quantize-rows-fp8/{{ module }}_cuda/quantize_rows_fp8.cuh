// Quantisation of rows to 8-bit floats E4M3, with a scale for each.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight in a row that is read twice. STREAM: whether what is not read again
// is marked so, and leaves the caches first.

#include <cuda_fp8.h>

#include "quantized_row.cuh"

namespace quantize_rows_fp8 {

constexpr float kLargest = 448.0f;
// Rows of zeros have this scale.
constexpr float kSmallestScale = 1.0f / (448.0f * 512.0f);

// Turns the values of a row into bytes, given the bits of the largest size in it. One that is NaN stays it.
struct Coder {
    float scale;
    float factor;

    __device__ explicit Coder(uint32_t largest) {
        const float quotient = __uint_as_float(largest) / kLargest;
        scale = quotient < kSmallestScale ? kSmallestScale : quotient;
        factor = 1.0f / scale;
    }
    // Two values, the first in the lower byte.
    __device__ __forceinline__ uint32_t two(float first, float second) const {
        return __nv_cvt_float2_to_fp8x2(make_float2(first * factor, second * factor), __NV_SATFINITE, __NV_E4M3);
    }
    __device__ __forceinline__ uint32_t four(float a, float b, float c, float d) const {
        return two(a, b) | two(c, d) << 16;
    }
    __device__ __forceinline__ uint8_t one(float value) const { return static_cast<uint8_t>(two(value, 0.0f)); }
};

// Rows that their threads hold.
template <typename T, int kUnits, int kLanes>
__global__ void __launch_bounds__(kLanes > quantized_row::kWarp ? kLanes : 128)
    held(__nv_fp8_e4m3* q, float* scale, const T* input, long long rows, int hidden) {
    quantized_row::held<Coder, kUnits, kLanes>(q, scale, input, rows, hidden);
}

// Rows of any length that their threads hold.
template <typename T, int kUnits, int kLanes>
__global__ void __launch_bounds__(kLanes > quantized_row::kWarp ? kLanes : 128)
    shifted(__nv_fp8_e4m3* q, float* scale, const T* input, long long rows, int hidden) {
    quantized_row::shifted<Coder, kUnits, kLanes>(q, scale, input, rows, hidden);
}

// Any row: for the largest size, and for the results.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock) read_twice(__nv_fp8_e4m3* q, float* scale, const T* input, long long hidden) {
    quantized_row::read_twice<Coder, kBlock>(q, scale, input, hidden);
}

}  // namespace quantize_rows_fp8
