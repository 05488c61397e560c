// A chain of elementwise steps in one pass over memory.
// Owns: the kernel and the chain. Never: chooses among settings; [launch] of op.toml does.
//
// UNROLL: how many vectors of results a thread makes. STREAM: whether inputs and results are marked as used once, so
// that they leave the caches first.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace chain {

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
    __device__ __forceinline__ float get(int place) const { return to_float(elements[place]); }
    __device__ __forceinline__ void set(int place, float value) { from_float(value, elements[place]); }
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

// In as few instructions as the result's dtype allows.
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

// One element of the result from one element of each input and the scalars, all as float; it is rounded to T
// afterwards. What stands here touches no memory, calls no barrier and no shuffle, and keeps nothing from one element
// to the next: it is called once for each element, in any order. T says how exact it must be. The same chain is in
// reference.py.
template <typename T>
__device__ __forceinline__ float expression(float input, float residual, float scale, float shift) {
    // hole: expression
    const float value = fmaf(input, scale, residual) + shift;
    return quotient<T>(value, 1.0f + exponential<T>(-value));
    // end of hole: expression
}

// All loads of a thread are on their way before the first is used. Index holds as many elements as there are.
template <typename T, int kBlock, int kElements, typename Index>
__global__ void __launch_bounds__(kBlock)
    apply(T* out, const T* input, const T* residual, Index count, float scale, float shift) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const inputs = reinterpret_cast<const Bits*>(input);
    const Bits* const residuals = reinterpret_cast<const Bits*>(residual);
    Bits* const to = reinterpret_cast<Bits*>(out);
    const Index vectors = count / kElements;
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
    Unit values[kUnroll];
    Unit others[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < vectors) {
            values[i].bits = load(inputs + place);
            others[i].bits = load(residuals + place);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < vectors) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                values[i].set(j, expression<T>(values[i].get(j), others[i].get(j), scale, shift));
            }
            store(to + place, values[i].bits);
        }
    }
    // What is no whole vector: by the first threads of all.
    const Index single = vectors * kElements + start;
    if (start < kElements && single < count) {
        from_float(expression<T>(to_float(input[single]), to_float(residual[single]), scale, shift), out[single]);
    }
}

}  // namespace chain
