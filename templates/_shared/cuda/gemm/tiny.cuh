// Owns: out = epilogue(a * transpose(b)) where the time is that of a start and of one trip to memory: small tiles, nothing
// to set up, the first copies as early as possible. Of a stage, each group of warps may have a part of k.
// Never: rows that do not begin at multiples of 16 bytes (portable.cuh).
#pragma once
#include "fragments.cuh"
#include "store.cuh"

namespace gemm {

template <int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int warps_k, int stages>
struct TinyPlan {
  static constexpr int threads = warps_m * warps_n * warps_k * 32;
  static constexpr int own_m = tile_m / warps_m / 16, own_n = tile_n / warps_n / 8, own_k = tile_k / warps_k / 16;
  static constexpr int units = tile_k / 8;
  static constexpr int bytes_a = tile_m * tile_k * 2, bytes_b = tile_n * tile_k * 2;
  static_assert(own_m >= 1 && own_n % 2 == 0 && own_n >= 2, "a warp has blocks of 16 by 16");
  static_assert(own_k >= 1 && tile_k % (16 * warps_k) == 0, "a group of warps has steps of 16");
  static_assert(units == 4 || units == 8, "the permutation of units is for rows of 64 or 128 bytes");
  static_assert((tile_m + tile_n) * units % threads == 0, "every thread copies the same number of units");
  static_assert((warps_k - 1) * tile_m * tile_n * 4 <= stages * (bytes_a + bytes_b), "sums lie where the stages were");
};

template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int warps_k, int stages>
__device__ __forceinline__ void
tiny_tile(T* out, const T* a, const T* b, const Epilogue<T>& epilogue, int m, int n, int k) {
  using P = TinyPlan<tile_m, tile_n, tile_k, warps_m, warps_n, warps_k, stages>;
  extern __shared__ unsigned char memory[];
  const unsigned tiles = shared_address(memory);
  const int first_m = blockIdx.y * tile_m, first_n = blockIdx.x * tile_n;

  // Where this thread copies: rows of a come first, then those of b.
  constexpr int copies = (tile_m + tile_n) * P::units / P::threads;
  const T* source[copies];
  bool inside[copies];
  unsigned target[copies];
  const int unit = threadIdx.x % P::units;
#pragma unroll
  for (int i = 0; i < copies; ++i) {
    const int row = (i * P::threads + static_cast<int>(threadIdx.x)) / P::units;
    const bool left = row < tile_m;
    const int at = left ? first_m + row : first_n + row - tile_m;
    inside[i] = at < (left ? m : n);
    source[i] = (left ? a : b) + static_cast<long long>(inside[i] ? at : 0) * k + unit * 8;
    target[i] = left ? place_of<tile_k>(row, unit) : P::bytes_a + place_of<tile_k>(row - tile_m, unit);
  }
  const int steps = (k + tile_k - 1) / tile_k;
  const auto start = [&](int step) {
    if (step < steps) {
      const unsigned stage = tiles + step % stages * (P::bytes_a + P::bytes_b);
#pragma unroll
      for (int i = 0; i < copies; ++i) {
        const bool there = inside[i] && step * tile_k + unit * 8 < k;
        copy(stage + target[i], there ? source[i] + step * tile_k : a, there);
      }
    }
    // A group for each step, though it may be empty: groups are counted.
    copies_commit();
  };
#pragma unroll
  for (int step = 0; step < stages - 1; ++step) start(step);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int part = warp / (warps_m * warps_n);
  const int warp_m = warp / warps_n % warps_m * (tile_m / warps_m), warp_n = warp % warps_n * (tile_n / warps_n);
  float sums[P::own_m][P::own_n][4] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<stages - 2>();
    // The step has arrived for all, and nobody reads the stage any more that is written next.
    __syncthreads();
    start(step + stages - 1);
    const unsigned stage = tiles + step % stages * (P::bytes_a + P::bytes_b);
#pragma unroll
    for (int i = 0; i < P::own_k; ++i) {
      const int at = (part * P::own_k + i) * 2;
      unsigned left[P::own_m][4], right[P::own_n / 2][4];
#pragma unroll
      for (int y = 0; y < P::own_m; ++y) {
        load_fragment(left[y], stage + place_of<tile_k>(warp_m + y * 16 + lane % 16, at + lane / 16));
      }
#pragma unroll
      for (int x = 0; x < P::own_n / 2; ++x) {
        const int row = warp_n + x * 16 + lane / 16 * 8 + lane % 8;
        load_fragment(right[x], stage + P::bytes_a + place_of<tile_k>(row, at + lane / 8 % 2));
      }
#pragma unroll
      for (int y = 0; y < P::own_m; ++y) {
#pragma unroll
        for (int x = 0; x < P::own_n; ++x) {
          multiply_fragments(sums[y][x], left[y], right[x / 2][x % 2 * 2], right[x / 2][x % 2 * 2 + 1], T());
        }
      }
    }
  }

  if constexpr (warps_k > 1) {
    // Groups are added in their order.
    __syncthreads();
    float4* const all = reinterpret_cast<float4*>(memory);
    constexpr int own = P::own_m * P::own_n;
    const int slot = warp % (warps_m * warps_n);
    if (part > 0) {
#pragma unroll
      for (int i = 0; i < own; ++i) {
        const float* four = sums[i / P::own_n][i % P::own_n];
        all[(((part - 1) * warps_m * warps_n + slot) * own + i) * 32 + lane] =
            make_float4(four[0], four[1], four[2], four[3]);
      }
    }
    __syncthreads();
    if (part > 0) return;
#pragma unroll
    for (int i = 0; i < own; ++i) {
      float* sum = sums[i / P::own_n][i % P::own_n];
#pragma unroll
      for (int other = 0; other < warps_k - 1; ++other) {
        const float4 four = all[((other * warps_m * warps_n + slot) * own + i) * 32 + lane];
        sum[0] += four.x;
        sum[1] += four.y;
        sum[2] += four.z;
        sum[3] += four.w;
      }
    }
  }

#pragma unroll
  for (int y = 0; y < P::own_m; ++y) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_m + warp_m + y * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int x = 0; x < P::own_n; x += 2) {
        store_pairs(out, sums[y][x] + half * 2, sums[y][x + 1] + half * 2, row, first_n + warp_n + x * 8, m, n, epilogue);
      }
    }
  }
}

}  // namespace gemm
