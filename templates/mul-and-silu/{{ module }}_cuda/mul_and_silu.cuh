// SwiGLU: the first half of a row, times the SiLU of the second half.
// Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// UNROLL: how many vectors of results a thread makes. STREAM: whether inputs and results are marked as used once, so
// that they leave the caches first.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace mul_silu {

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

// hole: gate
// value * sigmoid(value).
template <typename T>
__device__ __forceinline__ float activated(float value) {
    return quotient<T>(value, 1.0f + exponential<T>(-value));
}
// end of hole: gate

// A row of the input is what is multiplied, then the gates. Vectors of results are counted through all rows,
// so that no thread is idle at the end of one. Index holds as many elements as the input has.
template <typename T, int kBlock, int kElements, typename Index>
__global__ void __launch_bounds__(kBlock) gated(T* out, const T* input, Index count, Index length) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(out);
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
    Unit gates[kUnroll];
    Unit ups[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
            // `place` is of row place / length, before which lie twice as many.
            const Index up = place + place / length * length;
            ups[i].bits = load(from + up);
            gates[i].bits = load(from + up + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                gates[i].set(j, activated<T>(gates[i].get(j)) * ups[i].get(j));
            }
            store(to + place, gates[i].bits);
        }
    }
}

}  // namespace mul_silu
