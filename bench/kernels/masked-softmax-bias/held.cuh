// Softmax of scores with a bias, over the keys that a mask keeps.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace masked {

// What a key that is left out counts as.
constexpr float kLeftOut = -30000.0f;
constexpr int kWarp = 32;

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void from_float(float value, float& to) { to = value; }
__device__ __forceinline__ void from_float(float value, __half& to) { to = __float2half_rn(value); }
__device__ __forceinline__ void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

// As many bytes as one access moves.
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

struct Largest {
    __device__ float operator()(float one, float other) const { return fmaxf(one, other); }
};

struct Sum {
    __device__ float operator()(float one, float other) const { return one + other; }
};

// Over the block, known to all of its threads; `parts` is used once.
template <int kBlock, typename Join>
__device__ __forceinline__ float over_block(float value, Join join, float* parts) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value = join(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    if constexpr (kBlock == kWarp) {
        return value;
    }
    if (threadIdx.x % kWarp == 0) {
        parts[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    value = parts[0];
#pragma unroll
    for (int warp = 1; warp < kBlock / kWarp; ++warp) {
        value = join(value, parts[warp]);
    }
    return value;
}

__device__ __forceinline__ float of_key(float score, float bias, bool is_kept) {
    return is_kept ? score + bias : kLeftOut;
}

// A row in the registers of one block, read once: kUnits vectors a thread.
template <typename T, int kBlock, int kElements, int kUnits>
__global__ void __launch_bounds__(kBlock)
    held(T* out, const T* scores, const T* bias, const bool* mask, int queries, int keys) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    using Flags = Vector<bool, kElements>;
    __shared__ float parts[2][kWarp];
    const int64_t row = blockIdx.x;
    const int64_t batch = row / queries;
    const int64_t query = row - batch * queries;
    const int length = keys / kElements;
    const Bits* const from = reinterpret_cast<const Bits*>(scores) + row * length;
    const Bits* const added = reinterpret_cast<const Bits*>(bias) + query * length;
    const typename Flags::Bits* const kept = reinterpret_cast<const typename Flags::Bits*>(mask) + batch * length;
    Unit units[kUnits], biases[kUnits];
    Flags flags[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * kBlock;
        if (place < length) {
            units[i].bits = __ldcs(from + place);
            biases[i].bits = added[place];
            flags[i].bits = kept[place];
        }
    }
    float values[kUnits][kElements];
    float largest = -infinity();
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const bool is_there = threadIdx.x + i * kBlock < length;
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            const float value =
                of_key(to_float(units[i].elements[j]), to_float(biases[i].elements[j]), flags[i].elements[j]);
            values[i][j] = is_there ? value : -infinity();
            largest = fmaxf(largest, values[i][j]);
        }
    }
    largest = over_block<kBlock>(largest, Largest(), parts[0]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            values[i][j] = expf(values[i][j] - largest);
            sum += values[i][j];
        }
    }
    const float scale = 1.0f / over_block<kBlock>(sum, Sum(), parts[1]);
    Bits* const to = reinterpret_cast<Bits*>(out) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * kBlock;
        if (place < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                from_float(values[i][j] * scale, units[i].elements[j]);
            }
            __stcs(to + place, units[i].bits);
        }
    }
}

// Any row: for the largest value, for the sum, and for the results.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    read_thrice(T* out, const T* scores, const T* bias, const bool* mask, int queries, int keys) {
    __shared__ float parts[2][kWarp];
    const int64_t row = blockIdx.x;
    const int64_t batch = row / queries;
    const T* const from = scores + row * keys;
    const T* const added = bias + (row - batch * queries) * keys;
    const bool* const kept = mask + batch * keys;
    float largest = -infinity();
    for (int key = threadIdx.x; key < keys; key += kBlock) {
        largest = fmaxf(largest, of_key(to_float(from[key]), to_float(added[key]), kept[key]));
    }
    largest = over_block<kBlock>(largest, Largest(), parts[0]);
    float sum = 0.0f;
    for (int key = threadIdx.x; key < keys; key += kBlock) {
        sum += expf(of_key(to_float(from[key]), to_float(added[key]), kept[key]) - largest);
    }
    const float scale = 1.0f / over_block<kBlock>(sum, Sum(), parts[1]);
    for (int key = threadIdx.x; key < keys; key += kBlock) {
        const float value = of_key(to_float(from[key]), to_float(added[key]), kept[key]);
        from_float(expf(value - largest) * scale, out[row * keys + key]);
    }
}

}  // namespace masked
