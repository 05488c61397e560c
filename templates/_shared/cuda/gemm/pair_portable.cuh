// out = gate(a * transpose(gate), a * transpose(up)) on any GPU of capability 8.0 or later, and for rows of any length, as
// portable.cuh: a stage has a tile of each of the three matrices.
// Owns: the main loop, stores from registers. Never: copies to shared memory (portable.cuh), what becomes of the sums.
#pragma once
#include "portable.cuh"
#include "ring.cuh"
#include "store.cuh"

namespace gemm {

template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int stages, bool aligned>
__device__ __forceinline__ void
portable_pair(T* out, const T* a, const T* gate, const T* up, const Gate& gated, const Epilogue<T>& epilogue, int m,
              int n, int k, int group) {
  constexpr int threads = warps_m * warps_n * 32;
  constexpr int own_m = tile_m / warps_m / 16, own_n = tile_n / warps_n / 16;
  constexpr int bytes_a = tile_m * tile_k * 2, bytes_b = tile_n * tile_k * 2, bytes = bytes_a + 2 * bytes_b;
  extern __shared__ unsigned char memory[];
  const unsigned tiles = shared_address(memory);

  int first_m, first_n;
  const Walk walk{(m + tile_m - 1) / tile_m, (n + tile_n - 1) / tile_n, group};
  walk.at(blockIdx.x, first_m, first_n);
  first_m *= tile_m;
  first_n *= tile_n;

  const int steps = (k + tile_k - 1) / tile_k;
  const auto start = [&](int step) {
    if (step < steps) {
      const unsigned stage = tiles + step % stages * bytes;
      fetch<T, tile_m, tile_k, threads, aligned>(stage, a, first_m, m, step * tile_k, k);
      fetch<T, tile_n, tile_k, threads, aligned>(stage + bytes_a, gate, first_n, n, step * tile_k, k);
      fetch<T, tile_n, tile_k, threads, aligned>(stage + bytes_a + bytes_b, up, first_n, n, step * tile_k, k);
    }
    // A group for each step, though it may be empty: groups are counted.
    copies_commit();
  };
  for (int step = 0; step < stages - 1; ++step) start(step);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / warps_n * own_m * 16, warp_n = warp % warps_n * own_n * 16;
  // Of both products, in the order of the tiles in a stage.
  float sums[2][own_m][2 * own_n][4] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<stages - 2>();
    // The step has arrived for all, and nobody reads the stage any more that is written next.
    __syncthreads();
    start(step + stages - 1);
    const unsigned stage = tiles + step % stages * bytes;
#pragma unroll
    for (int unit = 0; unit < tile_k / 8; unit += 2) {
      unsigned left[own_m][4];
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
        load_fragment(left[i], stage + place_of<tile_k>(warp_m + i * 16 + lane % 16, unit + lane / 16));
      }
#pragma unroll
      for (int product = 0; product < 2; ++product) {
#pragma unroll
        for (int j = 0; j < own_n; ++j) {
          unsigned right[4];
          const int row = warp_n + j * 16 + lane / 16 * 8 + lane % 8;
          load_fragment(right, stage + bytes_a + product * bytes_b + place_of<tile_k>(row, unit + lane / 8 % 2));
#pragma unroll
          for (int i = 0; i < own_m; ++i) {
            multiply_fragments(sums[product][i][2 * j], left[i], right[0], right[1], T());
            multiply_fragments(sums[product][i][2 * j + 1], left[i], right[2], right[3], T());
          }
        }
      }
    }
  }
  wait_for_copies<0>();

#pragma unroll
  for (int i = 0; i < own_m; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_m + warp_m + i * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int j = 0; j < own_n; ++j) {
        float results[2][2];
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const int part = half * 2 + x % 2;
          results[x / 2][x % 2] = gated(sums[0][i][2 * j + x / 2][part], sums[1][i][2 * j + x / 2][part]);
        }
        store_pairs(out, results[0], results[1], row, first_n + warp_n + j * 16, m, n, epilogue);
      }
    }
  }
}

}  // namespace gemm
