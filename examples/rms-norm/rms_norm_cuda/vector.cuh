// Vectors of elements, and sums over warps and blocks.
// Owns: what kernels of rows have in common. Never: a kernel.
//
// STREAM: which accesses are marked as the only ones, so that their data leaves the caches first. 0: none; 1: those of `load`
// and `store`; 2: those of `store`.

#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace vector {

constexpr int kWarp = 32;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void from_float(float value, float& to) { to = value; }
__device__ __forceinline__ void from_float(float value, __half& to) { to = __float2half_rn(value); }
__device__ __forceinline__ void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

// The type that one load of kBytes moves.
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

__device__ __forceinline__ uint32_t word(uint32_t bits, int) { return bits; }
__device__ __forceinline__ uint32_t word(uint2 bits, int place) { return place == 0 ? bits.x : bits.y; }
__device__ __forceinline__ uint32_t word(uint4 bits, int place) {
    return place < 2 ? (place == 0 ? bits.x : bits.y) : (place == 2 ? bits.z : bits.w);
}

__device__ __forceinline__ void set_word(uint32_t& bits, int, uint32_t value) { bits = value; }
__device__ __forceinline__ void set_word(uint2& bits, int place, uint32_t value) {
    (place == 0 ? bits.x : bits.y) = value;
}
__device__ __forceinline__ void set_word(uint4& bits, int place, uint32_t value) {
    (place < 2 ? (place == 0 ? bits.x : bits.y) : (place == 2 ? bits.z : bits.w)) = value;
}

// Two values, rounded by one instruction.
__device__ __forceinline__ void from_floats(float low, float high, __half2& to) { to = __floats2half2_rn(low, high); }
__device__ __forceinline__ void from_floats(float low, float high, __nv_bfloat162& to) {
    to = __floats2bfloat162_rn(low, high);
}
template <typename T>
struct Pair;
template <>
struct Pair<__half> {
    using Type = __half2;
};
template <>
struct Pair<__nv_bfloat16> {
    using Type = __nv_bfloat162;
};

template <typename T>
constexpr bool kBfloat16 = false;
template <>
constexpr bool kBfloat16<__nv_bfloat16> = true;

template <typename T, int kElements>
struct Vector {
    using Bits = typename Word<kElements * sizeof(T)>::Type;
    union {
        Bits bits;
        T elements[kElements];
    };
    __device__ Vector() {}
    __device__ __forceinline__ float get(int place) const { return to_float(elements[place]); }
    // As `get`, in one instruction for bfloat16, which is the upper half of a float.
    __device__ __forceinline__ float quick(int place) const {
        if constexpr (kBfloat16<T> && kElements > 1) {
            const uint32_t pair = word(bits, place / 2);
            return __uint_as_float(place % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
        } else {
            return get(place);
        }
    }
    __device__ __forceinline__ void set(int place, float value) { from_float(value, elements[place]); }
    __device__ __forceinline__ float sum() const {
        float sum = get(0);
#pragma unroll
        for (int j = 1; j < kElements; ++j) {
            sum += get(j);
        }
        return sum;
    }
    // Sets all elements. Those of 16 bits are rounded two at a time, which takes fewer instructions.
    __device__ __forceinline__ void put(const float (&values)[kElements]) {
        if constexpr (sizeof(T) == 2 && kElements > 1) {
#pragma unroll
            for (int i = 0; i < kElements / 2; ++i) {
                typename Pair<T>::Type pair;
                from_floats(values[2 * i], values[2 * i + 1], pair);
                set_word(bits, i, reinterpret_cast<const uint32_t&>(pair));
            }
        } else {
#pragma unroll
            for (int i = 0; i < kElements; ++i) {
                set(i, values[i]);
            }
        }
    }
};

template <typename Bits>
__device__ __forceinline__ Bits load(const Bits* from) {
#if STREAM == 1
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

// Makes the compiler forget what the bits are. It would keep converted values as float, in twice the registers; now it
// converts them again.
__device__ __forceinline__ void forget(uint16_t& bits) { asm volatile("" : "+h"(bits)); }
__device__ __forceinline__ void forget(uint32_t& bits) { asm volatile("" : "+r"(bits)); }
__device__ __forceinline__ void forget(uint2& bits) {
    forget(bits.x);
    forget(bits.y);
}
__device__ __forceinline__ void forget(uint4& bits) {
    forget(bits.x);
    forget(bits.y);
    forget(bits.z);
    forget(bits.w);
}

// With the precision that the result's dtype needs, in as few instructions as possible.
template <typename T>
__device__ __forceinline__ float exponential(float value) {
    if constexpr (sizeof(T) == 4) {
        return expf(value);
    } else {
        return __expf(value);
    }
}

template <typename T>
__device__ __forceinline__ float quotient(float value, float by) {
    if constexpr (sizeof(T) == 4) {
        return value / by;
    } else {
        return __fdividef(value, by);
    }
}

// Sum over kLanes neighboring threads of a warp, known to all of them.
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

// Sum over the threads of a row, known to all of them and added in the same order in every run. kLanes threads have a
// row: a part of a warp, where kRows rows share a block; or the whole block, which has kLanes threads at most. Each use in
// a kernel takes another kUse, and so has memory of its own: no barrier is needed between uses.
template <int kLanes, int kRows, int kUse>
__device__ __forceinline__ float row_sum(float value) {
    if constexpr (kLanes <= kWarp) {
        return lanes_sum<kLanes>(value);
    } else {
        static_assert(kRows == 1);
        __shared__ float sums[kLanes / kWarp];
        const int warps = blockDim.x / kWarp;
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        value = lanes_sum<kWarp>(value);
        if (lane == 0) {
            sums[warp] = value;
        }
        __syncthreads();
        return lanes_sum<kWarp>(lane < warps ? sums[lane] : 0.0f);
    }
}

// kCount sums over the threads of a row, known to all of them and added in the same order in every run. kLanes
// neighbors of a warp have a row, or, with 0, the block, which is of whole warps. `memory` is for kCount * 32 floats of
// shared memory that nothing else uses between this barrier and the next one.
template <int kLanes, int kCount>
__device__ __forceinline__ void row_sums(float (&values)[kCount], float* memory) {
    if constexpr (kLanes > 0) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            values[i] = lanes_sum<kLanes>(values[i]);
        }
    } else {
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        const int warps = blockDim.x / kWarp;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            values[i] = lanes_sum<kWarp>(values[i]);
            if (lane == 0) {
                memory[i * kWarp + warp] = values[i];
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            values[i] = lanes_sum<kWarp>(lane < warps ? memory[i * kWarp + lane] : 0.0f);
        }
    }
}

// Consecutive elements: vectors that begin at multiples of their size, and single elements before and after them.
template <int kElements>
struct Slice {
    int64_t first;
    int head;
    int64_t vectors;
    int tail;

    __device__ Slice(int64_t first, int64_t count) : first(first) {
        head = static_cast<int>((kElements - first % kElements) % kElements);
        head = head < count ? head : static_cast<int>(count);
        vectors = (count - head) / kElements;
        tail = static_cast<int>((count - head) % kElements);
    }
    __device__ int64_t aligned() const { return first + head; }
    // The single element that is this thread's, or -1.
    __device__ int64_t single(int thread) const {
        if (thread < head) {
            return first + thread;
        }
        return thread < head + tail ? aligned() + vectors * kElements + (thread - head) : -1;
    }
};

}  // namespace vector
