// Rotary position embedding of queries and keys. Owns: the kernel. Never: chooses among settings; [launch] of op.toml
// does.
//
// STREAM: whether queries, keys and results are marked as used once, so that the table stays in the caches.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace rope {

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

// Each thread rotates kElements pairs in up to kHeads heads of a token by the same angles, which it loads once. The two
// of a pair are half a head apart, or neighbors with kInterleaved. The heads of a thread are `groups` apart, so that
// neighboring threads have neighboring memory. A thread reads all of a pair before it writes it, and no two threads
// have the same pair: results may lie where the queries and keys do.
// hole: rotation
// What a pair becomes, given the cosine and the sine of its angle.
__device__ __forceinline__ float2 rotated(float a, float b, float cosine, float sine) {
    return {a * cosine - b * sine, b * cosine + a * sine};
}
// end of hole: rotation

template <typename T, int kBlock, int kElements, int kHeads, bool kInterleaved, typename Index>
__global__ void __launch_bounds__(kBlock)
    rotate(T* q_out, T* k_out, const T* q, const T* k, const T* cos_sin, const long long* positions,
           Index count, int heads, int kv_heads, int dim, int table) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Index thread = static_cast<Index>(blockIdx.x) * kBlock + threadIdx.x;
    if (thread >= count) {
        return;
    }
    // Of half a head.
    const int vectors = dim / 2 / kElements;
    const int groups = (heads + kv_heads + kHeads - 1) / kHeads;
    const int vector = static_cast<int>(thread % vectors);
    const int group = static_cast<int>(thread / vectors % groups);
    const int64_t token = thread / vectors / groups;
    // One below zero counts from the end of the table, as in PyTorch.
    int64_t position = positions == nullptr ? token : positions[token];
    position = position < 0 ? position + table : position;
    // In vectors from the beginning of a head.
    const int low = kInterleaved ? 2 * vector : vector;
    const int high = kInterleaved ? 2 * vector + 1 : vectors + vector;

    Unit lows[kHeads];
    Unit highs[kHeads];
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
        const int head = group + i * groups;
        if (head < heads + kv_heads) {
            const bool is_query = head < heads;
            const int64_t first = is_query ? token * heads + head : token * kv_heads + (head - heads);
            const Bits* const from = reinterpret_cast<const Bits*>(is_query ? q : k) + first * (2 * vectors);
            lows[i].bits = load(from + low);
            highs[i].bits = load(from + high);
        }
    }
    Unit cosines;
    Unit sines;
    const Bits* const angles = reinterpret_cast<const Bits*>(cos_sin) + position * (2 * vectors);
    cosines.bits = angles[vector];
    sines.bits = angles[vectors + vector];
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
        const int head = group + i * groups;
        if (head < heads + kv_heads) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                // Where pairs are neighbors, the first half of them is in `lows`.
                Unit& first = kInterleaved && 2 * j >= kElements ? highs[i] : lows[i];
                Unit& second = kInterleaved && 2 * j + 1 < kElements ? lows[i] : highs[i];
                const int x = kInterleaved ? 2 * j % kElements : j;
                const int y = kInterleaved ? (2 * j + 1) % kElements : j;
                const float2 pair = rotated(first.get(x), second.get(y), cosines.get(j), sines.get(j));
                first.set(x, pair.x);
                second.set(y, pair.y);
            }
            const bool is_query = head < heads;
            const int64_t at = is_query ? token * heads + head : token * kv_heads + (head - heads);
            Bits* const to = reinterpret_cast<Bits*>(is_query ? q_out : k_out) + at * (2 * vectors);
            store(to + low, lows[i].bits);
            store(to + high, highs[i].bits);
        }
    }
}

}  // namespace rope
