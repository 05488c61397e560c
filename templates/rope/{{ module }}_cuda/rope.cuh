// Rotary position embedding of queries and keys. Owns: the kernel. Never: chooses among settings; [launch] of op.toml
// does.
//
// STREAM: which of queries, keys and results are marked as used once, so that the table stays in the caches; vector.cuh
// says how.

#include "vector.cuh"

namespace rope {

using namespace vector;

// hole: rotation
// What a pair becomes, given the cosine and the sine of its angle.
__device__ __forceinline__ float2 rotated(float a, float b, float cosine, float sine) {
    return {a * cosine - b * sine, b * cosine + a * sine};
}
// end of hole: rotation

// Rotates a vector of each half of a head.
template <int kElements, bool kInterleaved, typename Unit>
__device__ __forceinline__ void rotate_unit(Unit& low, Unit& high, const Unit& cosines, const Unit& sines) {
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        // Where pairs are neighbors, the first half of them is in `low`.
        Unit& first = kInterleaved && 2 * j >= kElements ? high : low;
        Unit& second = kInterleaved && 2 * j + 1 < kElements ? low : high;
        const int x = kInterleaved ? 2 * j % kElements : j;
        const int y = kInterleaved ? (2 * j + 1) % kElements : j;
        const float2 pair = rotated(first.get(x), second.get(y), cosines.get(j), sines.get(j));
        first.set(x, pair.x);
        second.set(y, pair.y);
    }
}

// Each thread rotates kElements pairs in up to kHeads heads of a token by the same angles, which it loads once. The two
// of a pair are half a head apart, or neighbors with kInterleaved. The heads of a thread are `groups` apart, so that
// neighboring threads have neighboring memory. A thread reads all of a pair before it writes it, and no two threads
// have the same pair: results may lie where the queries and keys do.
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
            rotate_unit<kElements, kInterleaved>(lows[i], highs[i], cosines, sines);
            const bool is_query = head < heads;
            const int64_t at = is_query ? token * heads + head : token * kv_heads + (head - heads);
            Bits* const to = reinterpret_cast<Bits*>(is_query ? q_out : k_out) + at * (2 * vectors);
            store(to + low, lows[i].bits);
            store(to + high, highs[i].bits);
        }
    }
}

// As `rotate`, by a block for each token: kVectors neighboring threads have a head, and up to kHeads heads each. With that
// many vectors known, nothing is divided.
template <typename T, int kVectors, int kElements, int kHeads, bool kInterleaved>
__global__ void __launch_bounds__(1024)
    rotate_token(T* q_out, T* k_out, const T* q, const T* k, const T* cos_sin, const long long* positions, int heads,
                 int kv_heads, int table) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int64_t token = blockIdx.x;
    const int vector = static_cast<int>(threadIdx.x) % kVectors;
    const int group = static_cast<int>(threadIdx.x) / kVectors;
    const int groups = static_cast<int>(blockDim.x) / kVectors;
    int64_t position = positions == nullptr ? token : positions[token];
    position = position < 0 ? position + table : position;
    const int low = kInterleaved ? 2 * vector : vector;
    const int high = kInterleaved ? 2 * vector + 1 : kVectors + vector;
    // In vectors from the token's first query, and from its first key.
    const int64_t query = token * heads * (2 * kVectors);
    const int64_t key = token * kv_heads * (2 * kVectors);
    Unit lows[kHeads];
    Unit highs[kHeads];
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
        const int head = group + i * groups;
        if (head < heads + kv_heads) {
            const Bits* const from = head < heads
                ? reinterpret_cast<const Bits*>(q) + query + head * (2 * kVectors)
                : reinterpret_cast<const Bits*>(k) + key + (head - heads) * (2 * kVectors);
            lows[i].bits = load(from + low);
            highs[i].bits = load(from + high);
        }
    }
    Unit cosines;
    Unit sines;
    const Bits* const angles = reinterpret_cast<const Bits*>(cos_sin) + position * (2 * kVectors);
    cosines.bits = angles[vector];
    sines.bits = angles[kVectors + vector];
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
        const int head = group + i * groups;
        if (head < heads + kv_heads) {
            rotate_unit<kElements, kInterleaved>(lows[i], highs[i], cosines, sines);
            Bits* const to = head < heads
                ? reinterpret_cast<Bits*>(q_out) + query + head * (2 * kVectors)
                : reinterpret_cast<Bits*>(k_out) + key + (head - heads) * (2 * kVectors);
            store(to + low, lows[i].bits);
            store(to + high, highs[i].bits);
        }
    }
}

}  // namespace rope
