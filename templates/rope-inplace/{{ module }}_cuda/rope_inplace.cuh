// Rotary position embedding of queries and keys, in place. Owns: the kernel. Never: chooses among settings; [launch] of
// op.toml does.
//
// STREAM: whether queries and keys are marked as used once, so that the table stays in the caches.

#include "vector.cuh"

namespace rope {

using namespace vector;

// Each thread rotates kElements pairs in up to kHeads heads of a token by the same angles, which it loads once. The two
// of a pair are half of what is rotated apart, or neighbors with kInterleaved. The heads of a thread are `groups`
// apart, so that neighboring threads have neighboring memory. A thread reads all of a pair before it writes it, and no
// two threads have the same pair. What lies in a head behind its first `rotary` elements is not touched.
template <typename T, int kBlock, int kElements, int kHeads, bool kInterleaved, typename Index>
__global__ void __launch_bounds__(kBlock)
    rotate_in_place(T* q, T* k, const T* cos_sin, const long long* positions, Index count, int heads, int kv_heads,
                    int dim, int rotary, int table) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Index thread = static_cast<Index>(blockIdx.x) * kBlock + threadIdx.x;
    if (thread >= count) {
        return;
    }
    // Of half of what is rotated.
    const int vectors = rotary / 2 / kElements;
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
            const Bits* const from = reinterpret_cast<const Bits*>(is_query ? q : k) + first * (dim / kElements);
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
                const float a = first.get(x);
                const float b = second.get(y);
                const float c = cosines.get(j);
                const float s = sines.get(j);
                first.set(x, a * c - b * s);
                second.set(y, b * c + a * s);
            }
            const bool is_query = head < heads;
            const int64_t at = is_query ? token * heads + head : token * kv_heads + (head - heads);
            Bits* const to = reinterpret_cast<Bits*>(is_query ? q : k) + at * (dim / kElements);
            store(to + low, lows[i].bits);
            store(to + high, highs[i].bits);
        }
    }
}

}  // namespace rope
