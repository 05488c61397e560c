// RMS normalisation, one block per row. Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many elements of a row that is read twice a thread has in flight. STREAM: whether input and output are
// marked as used once, so that they leave the cache first.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace rms {

constexpr int kWarp = 32;
// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void from_float(float value, float& to) { to = value; }
__device__ __forceinline__ void from_float(float value, __half& to) { to = __float2half_rn(value); }
__device__ __forceinline__ void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

// As many bytes as one load moves.
template <int kBytes>
struct Word;
template <>
struct Word<2> {
    using Type = uint16_t;
};
template <>
struct Word<4> {
    using Type = uint32_t;
};
template <>
struct Word<8> {
    using Type = uint2;
};
template <>
struct Word<16> {
    using Type = uint4;
};

template <typename T, int kElements>
struct Vector {
    using Bits = typename Word<kElements * sizeof(T)>::Type;
    union {
        Bits bits;
        T elements[kElements];
    };
    __device__ Vector() {}
};

template <typename Bits>
__device__ __forceinline__ Bits load(const Bits* from) {
#if STREAM
    return __ldcs(from);
#else
    return *from;
#endif
}

template <typename Bits>
__device__ __forceinline__ void store(Bits* to, Bits bits) {
#if STREAM
    __stcs(to, bits);
#else
    *to = bits;
#endif
}

// Sum over the block, known to all of its threads and added in the same order in every run.
template <int kBlock>
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float sums[kBlock / kWarp];
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    if constexpr (kBlock == kWarp) {
        return value;
    }
    if (threadIdx.x % kWarp == 0) {
        sums[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kBlock / kWarp; ++warp) {
        total += sums[warp];
    }
    return total;
}

// A row in the registers of one block: kUnits vectors a thread.
template <typename T, int kBlock, int kElements, int kUnits>
__global__ void __launch_bounds__(kBlock)
    held(T* out, const T* input, const T* weight, int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int length = hidden / kElements;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * length;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + first;
    Unit held[kUnits];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * kBlock;
        if (place < length) {
            held[i].bits = load(from + place);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (threadIdx.x + i * kBlock < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = to_float(held[i].elements[j]);
                sum += value * value;
            }
        }
    }
    const float scale = rsqrtf(block_sum<kBlock>(sum) / hidden + eps);
    const Bits* const weights = reinterpret_cast<const Bits*>(weight);
    Bits* const to = reinterpret_cast<Bits*>(out) + first;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * kBlock;
        if (place < length) {
            Unit factor;
            factor.bits = weights[place];
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = to_float(held[i].elements[j]) * scale * to_float(factor.elements[j]);
                from_float(value, held[i].elements[j]);
            }
            store(to + place, held[i].bits);
        }
    }
}

// Any row: once for the sum, once more for the scaling.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    read_twice(T* out, const T* input, const T* weight, long long hidden, float eps) {
    const T* const from = input + blockIdx.x * hidden;
    float sum = 0.0f;
#pragma unroll kUnroll
    for (long long column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = to_float(from[column]);
        sum += value * value;
    }
    const float scale = rsqrtf(block_sum<kBlock>(sum) / hidden + eps);
    T* const to = out + blockIdx.x * hidden;
#pragma unroll kUnroll
    for (long long column = threadIdx.x; column < hidden; column += kBlock) {
        from_float(to_float(from[column]) * scale * to_float(weight[column]), to[column]);
    }
}

}  // namespace rms
