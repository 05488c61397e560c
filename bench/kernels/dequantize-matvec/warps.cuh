// A matrix of 8-bit integers with a scale for each row, times a vector.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace matvec {

constexpr int kWarp = 32;
// Integers of one access.
constexpr int kBytes = 16;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void from_float(float value, float& to) { to = value; }
__device__ __forceinline__ void from_float(float value, __half& to) { to = __float2half_rn(value); }
__device__ __forceinline__ void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

// The elements of the vector that belong to one access to the matrix.
template <typename T>
struct Factors {
    union {
        uint4 bits[kBytes * sizeof(T) / 16];
        T elements[kBytes];
    };
    __device__ explicit Factors(const T* from) {
#pragma unroll
        for (int i = 0; i < static_cast<int>(kBytes * sizeof(T) / 16); ++i) {
            bits[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
        }
    }
};

// Byte `place` of a word whose bytes have flipped signs. Such a byte is 128 too large, and as the last bits of 2^23 it is a
// float: that takes no conversion, of which a multiprocessor makes few at a time.
__device__ __forceinline__ float signed_byte(uint32_t flipped, int place) {
    return __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7540u + place)) - 8388736.0f;
}

__device__ __forceinline__ float over_warp(float value) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

// A warp has kRows rows, and kUnits accesses to each of them in flight.
template <typename T, int kWarps, int kRows, int kUnits>
__global__ void __launch_bounds__(kWarp* kWarps)
    of_warps(T* out, const int8_t* weight, const T* scale, const T* x, long long rows, int hidden) {
    const int lane = threadIdx.x % kWarp;
    const int64_t first = (static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp) * kRows;
    const int length = hidden / kBytes;
    const uint4* const from = reinterpret_cast<const uint4*>(weight) + first * length;
    float sums[kRows] = {};
    for (int start = lane; start < length; start += kWarp * kUnits) {
        uint4 words[kUnits][kRows];
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
                if (start + i * kWarp < length && first + row < rows) {
                    words[i][row] = __ldcs(from + static_cast<int64_t>(row) * length + start + i * kWarp);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = start + i * kWarp;
            if (place < length) {
                const Factors<T> factors(x + static_cast<int64_t>(place) * kBytes);
#pragma unroll
                for (int row = 0; row < kRows; ++row) {
                    const uint4 bits = words[i][row];
                    const uint32_t parts[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
                    for (int j = 0; j < kBytes; ++j) {
                        const float value = signed_byte(parts[j / 4] ^ 0x80808080u, j % 4);
                        sums[row] = fmaf(value, to_float(factors.elements[j]), sums[row]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
        const float sum = over_warp(sums[row]);
        if (lane == 0 && first + row < rows) {
            from_float(sum * to_float(scale[first + row]), out[first + row]);
        }
    }
}

// Rows that are no multiple of an access: a warp has one.
template <typename T, int kWarps>
__global__ void __launch_bounds__(kWarp* kWarps)
    by_element(T* out, const int8_t* weight, const T* scale, const T* x, long long rows, int hidden) {
    const int lane = threadIdx.x % kWarp;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
    float sum = 0.0f;
    if (row < rows) {
        for (int column = lane; column < hidden; column += kWarp) {
            sum = fmaf(static_cast<float>(weight[row * hidden + column]), to_float(x[column]), sum);
        }
    }
    sum = over_warp(sum);
    if (lane == 0 && row < rows) {
        from_float(sum * to_float(scale[row]), out[row]);
    }
}

}  // namespace matvec
