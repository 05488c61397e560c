// Rotary position embedding of a video. Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// STREAM: whether queries, keys and results are marked as used once, so that the table stays in the caches.

#include "vector.cuh"

namespace rope {

using namespace vector;

// Where the angles of a token are: it has a row of the table for its time, one for its height and one for its width,
// and each pair of a head takes its column from one of them.
struct Angles {
    const float* rows[3];
    int of_time;
    int of_height;

    __device__ Angles(const float* table, int64_t rows_of_table, int dim, const long long* positions, int64_t token,
                      int time_pairs, int height_pairs)
        : of_time(time_pairs), of_height(time_pairs + height_pairs) {
#pragma unroll
        for (int way = 0; way < 3; ++way) {
            // One below zero counts from the end of the table, as in PyTorch.
            int64_t position = positions == nullptr ? token : positions[3 * token + way];
            position = position < 0 ? position + rows_of_table : position;
            rows[way] = table + position * dim;
        }
    }
    __device__ __forceinline__ const float* row_of(int pair) const {
        return pair < of_time ? rows[0] : pair < of_height ? rows[1] : rows[2];
    }
};

// The angles of kElements pairs from `pair` on: vectors where all are of one row, which they mostly are.
template <int kElements>
__device__ __forceinline__ void angles_of(const Angles& angles, int pair, int half, float (&cosines)[kElements],
                                          float (&sines)[kElements]) {
    constexpr int kOfOne = kElements < 4 ? kElements : 4;
    using Unit = Vector<float, kOfOne>;
    using Bits = typename Unit::Bits;
    const float* const row = angles.row_of(pair);
    if (kElements == 1 || row == angles.row_of(pair + kElements - 1)) {
#pragma unroll
        for (int i = 0; i < kElements; i += kOfOne) {
            Unit c;
            Unit s;
            c.bits = *reinterpret_cast<const Bits*>(row + pair + i);
            s.bits = *reinterpret_cast<const Bits*>(row + half + pair + i);
#pragma unroll
            for (int j = 0; j < kOfOne; ++j) {
                cosines[i + j] = c.get(j);
                sines[i + j] = s.get(j);
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            const float* const own = angles.row_of(pair + j);
            cosines[j] = own[pair + j];
            sines[j] = own[half + pair + j];
        }
    }
}

// Each thread rotates kElements pairs in up to kHeads heads of a token by the same angles, which it loads once. The two
// of a pair are half a head apart, or neighbors with kInterleaved. The heads of a thread are `groups` apart, so that
// neighboring threads have neighboring memory. A thread reads all of a pair before it writes it, and no two threads
// have the same pair: results may lie where the queries and keys do.
template <typename T, int kBlock, int kElements, int kHeads, bool kInterleaved, typename Index>
__global__ void __launch_bounds__(kBlock)
    rotate_video(T* q_out, T* k_out, const T* q, const T* k, const float* cos_sin, const long long* positions,
                 Index count, int heads, int kv_heads, int dim, int table, int time_pairs, int height_pairs) {
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
    float cosines[kElements];
    float sines[kElements];
    const Angles angles(cos_sin, table, dim, positions, token, time_pairs, height_pairs);
    angles_of<kElements>(angles, vector * kElements, dim / 2, cosines, sines);
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
                const float c = cosines[j];
                const float s = sines[j];
                first.set(x, a * c - b * s);
                second.set(y, b * c + a * s);
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
