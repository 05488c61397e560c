// Rotary position embedding of queries and keys. Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// STREAM: what is marked as used once, so that the table stays in the caches; vector.cuh says how.

#include "vector.cuh"

namespace rope {

using namespace vector;

// hole: rotation
// What a pair becomes, given the cosine and the sine of its angle.
__device__ __forceinline__ float2 rotated(float a, float b, float cosine, float sine) {
    return {a * cosine - b * sine, b * cosine + a * sine};
}
// end of hole: rotation

// What a launch rotates. Tensors are given as vectors.
template <typename Bits>
struct Tensors {
    Bits* q_out;
    Bits* k_out;
    const Bits* q;
    const Bits* k;
    const Bits* cos_sin;
    const long long* positions;
    int heads;
    int kv_heads;
    // Of half a head.
    int vectors;
    int table;
};

// A thread rotates kElements pairs in up to kHeads heads of a token by the same angles, which it loads once. The two of a
// pair are half a head apart, or neighbors with kInterleaved. The heads of a thread are `groups` apart, so that
// neighboring threads have neighboring memory. A thread reads all of a pair before it writes it, and no two threads
// have the same pair: results may lie where the queries and keys do.
template <typename T, int kElements, int kHeads, bool kInterleaved, typename Bits>
__device__ __forceinline__ void
rotate_heads(const Tensors<Bits>& of, int64_t token, int group, int groups, int vector) {
    using Unit = Vector<T, kElements>;
    const int width = 2 * of.vectors;
    // In vectors from the beginning of a head.
    const int low = kInterleaved ? 2 * vector : vector;
    const int high = kInterleaved ? 2 * vector + 1 : of.vectors + vector;
    const int64_t queries = token * of.heads * width;
    // Heads of keys are counted after those of queries.
    const int64_t keys = (token * of.kv_heads - of.heads) * width;
    Unit units[kHeads][2];
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
        const int head = group + i * groups;
        if (head < of.heads + of.kv_heads) {
            const Bits* const from = (head < of.heads ? of.q + queries : of.k + keys) + head * width;
            units[i][0].bits = load(from + low);
            units[i][1].bits = load(from + high);
        }
    }
    // One below zero counts from the end of the table, as in PyTorch.
    int64_t position = of.positions == nullptr ? token : of.positions[token];
    position = position < 0 ? position + of.table : position;
    Unit cosines;
    Unit sines;
    const Bits* const angles = of.cos_sin + position * width;
    cosines.bits = angles[vector];
    sines.bits = angles[of.vectors + vector];
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
        const int head = group + i * groups;
        if (head < of.heads + of.kv_heads) {
            float values[2][kElements];
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                // Among the elements of both vectors.
                const int a = kInterleaved ? 2 * j : j;
                const int b = kInterleaved ? 2 * j + 1 : kElements + j;
                const float2 pair = rotated(
                    units[i][a / kElements].quick(a % kElements), units[i][b / kElements].quick(b % kElements),
                    cosines.quick(j), sines.quick(j));
                values[a / kElements][a % kElements] = pair.x;
                values[b / kElements][b % kElements] = pair.y;
            }
            units[i][0].put(values[0]);
            units[i][1].put(values[1]);
            Bits* const to = (head < of.heads ? of.q_out + queries : of.k_out + keys) + head * width;
            store(to + low, units[i][0].bits);
            store(to + high, units[i][1].bits);
        }
    }
}

template <typename T, int kElements>
using BitsOf = typename Vector<T, kElements>::Bits;

// Threads one after the other, whatever token they have.
template <typename T, int kBlock, int kElements, int kHeads, bool kInterleaved, typename Index>
__global__ void __launch_bounds__(kBlock)
    rotate(T* q_out, T* k_out, const T* q, const T* k, const T* cos_sin, const long long* positions,
           Index count, int heads, int kv_heads, int dim, int table) {
    using Bits = BitsOf<T, kElements>;
    const Index thread = static_cast<Index>(blockIdx.x) * kBlock + threadIdx.x;
    if (thread >= count) {
        return;
    }
    const int vectors = dim / 2 / kElements;
    const int groups = (heads + kv_heads + kHeads - 1) / kHeads;
    const Tensors<Bits> of{
        reinterpret_cast<Bits*>(q_out), reinterpret_cast<Bits*>(k_out), reinterpret_cast<const Bits*>(q),
        reinterpret_cast<const Bits*>(k), reinterpret_cast<const Bits*>(cos_sin), positions,
        heads, kv_heads, vectors, table};
    rotate_heads<T, kElements, kHeads, kInterleaved>(
        of, thread / vectors / groups, static_cast<int>(thread / vectors % groups), groups,
        static_cast<int>(thread % vectors));
}

// Whole tokens in a block: blockDim.y of them, each with blockDim.x threads, so that next to nothing is divided. `part` is
// 2^20 / vectors, rounded up: with it a thread below 1024 is divided by a multiplication.
template <typename T, int kBlock, int kElements, int kHeads, bool kInterleaved>
__global__ void __launch_bounds__(kBlock)
    rotate_tokens(T* q_out, T* k_out, const T* q, const T* k, const T* cos_sin, const long long* positions,
                  long long tokens, int heads, int kv_heads, int vectors, int table, int groups, int part) {
    using Bits = BitsOf<T, kElements>;
    const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (token >= tokens) {
        return;
    }
    const int group = static_cast<int>(threadIdx.x * static_cast<unsigned>(part) >> 20);
    const Tensors<Bits> of{
        reinterpret_cast<Bits*>(q_out), reinterpret_cast<Bits*>(k_out), reinterpret_cast<const Bits*>(q),
        reinterpret_cast<const Bits*>(k), reinterpret_cast<const Bits*>(cos_sin), positions,
        heads, kv_heads, vectors, table};
    rotate_heads<T, kElements, kHeads, kInterleaved>(
        of, token, group, groups, static_cast<int>(threadIdx.x) - group * vectors);
}

}  // namespace rope
