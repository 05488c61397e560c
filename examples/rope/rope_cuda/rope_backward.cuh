// The gradient of rotary position embedding: the rotation by the opposite angles.
// Owns: the kernel. Never: chooses among settings; [launch] of backward.toml does.
//
// STREAM: whether gradients are marked as used once, so that the table stays in the caches.

#include "vector.cuh"

namespace rope_gradient {

using namespace vector;

// Each thread turns kElements pairs in up to kHeads heads of a token back by the same angles, which it loads once. The
// two of a pair are half a head apart, or neighbors with kInterleaved. The heads of a thread are `groups` apart, so
// that neighboring threads have neighboring memory. A thread reads all of a pair before it writes it, and no two
// threads have the same pair: results may lie where the gradients do.
template <typename T, int kElements, int kHeads, bool kInterleaved, typename Index>
__global__ void __launch_bounds__(512)
    turn_back(T* grad_q, T* grad_k, const T* grad_q_out, const T* grad_k_out, const T* cos_sin,
              const long long* positions, Index count, int heads, int kv_heads, int dim, int table) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Index thread = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
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
            const T* const gradients = is_query ? grad_q_out : grad_k_out;
            const Bits* const from = reinterpret_cast<const Bits*>(gradients) + first * (2 * vectors);
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
                first.set(x, a * c + b * s);
                second.set(y, b * c - a * s);
            }
            const bool is_query = head < heads;
            const int64_t at = is_query ? token * heads + head : token * kv_heads + (head - heads);
            Bits* const to = reinterpret_cast<Bits*>(is_query ? grad_q : grad_k) + at * (2 * vectors);
            store(to + low, lows[i].bits);
            store(to + high, highs[i].bits);
        }
    }
}

}  // namespace rope_gradient
