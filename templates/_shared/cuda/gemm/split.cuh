// Owns: out = epilogue(a * b) where there are few tiles and k is long: each tile is computed by the blocks of a cluster, each for
// a part of k. They add up through each other's shared memory, in the order of the parts, so that the result is the same in
// every run.
// Never: more than one tile a cluster, memory beside the result.
#pragma once
#include "epilogue.cuh"
#include "ring.cuh"

namespace gemm {

template <typename T, int tile_m, int tile_n, int stages, int cluster, Layout layout_a, Layout layout_b>
struct SplitPlan {
  using Stages = Ring<T, tile_m, tile_n, stages, 1, 1, layout_a, layout_b>;
  // Warpgroups that multiply; one more warp copies.
  static constexpr int consumers = tile_m / 64, threads = consumers * 128 + 32;
  static_assert(tile_m % 64 == 0, "a warpgroup has 64 rows");

  // A block adds up these rows of its tile, units of 4 sums at a time.
  static constexpr int rows = tile_m / cluster, units = rows * tile_n / 4;
  // Eight words more than a tile's row: the four rows that half a warp writes lie in different banks.
  static constexpr int stride = tile_n + 8;
  static_assert(tile_m * stride * 4 <= Stages::bytes, "sums lie where the stages were");

  static constexpr int barriers_at = Stages::bytes, shared = 1024 + barriers_at + Stages::barrier_bytes;
  static_assert(shared <= 232448, "more than the shared memory of a block");
};

// Four finished sums beside each other in a row of the tile.
template <typename T, class Finish>
__device__ __forceinline__ void store_four(T* out, float4 sum, int row, int column, int m, int n, const Finish& epilogue) {
  if (row >= m || column >= n) return;
  const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
  T* target = out + static_cast<long long>(row) * n + column;
  float last[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) last[i] = finished(epilogue, sums[i], row, column + i, m, n);
  if (n % 4 == 0) {
    *reinterpret_cast<uint2*>(target) = make_uint2(pack(last[0], last[1], T()), pack(last[2], last[3], T()));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i < n) target[i] = static_cast<T>(last[i]);
    }
  }
}

template <typename T, int tile_m, int tile_n, int stages, int cluster, Layout layout_a = Layout::along,
          Layout layout_b = Layout::along, class Finish>
__device__ __forceinline__ void split_tile(const TensorMap& map_a, const TensorMap& map_b, T* out, const Finish& epilogue, int m,
                                           int n, int k, int group) {
  using P = SplitPlan<T, tile_m, tile_n, stages, cluster, layout_a, layout_b>;
  extern __shared__ unsigned char memory[];
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  const int part = static_cast<int>(cluster_rank());
  typename P::Stages ring(base, base + P::barriers_at);

  if (threadIdx.x == 0) {
    map_prefetch(map_a);
    map_prefetch(map_b);
    ring.init(4 * P::consumers);
  }
  __syncthreads();

  const Walk walk{(m + tile_m - 1) / tile_m, (n + tile_n - 1) / tile_n, group};
  int row, column;
  walk.at(blockIdx.x / cluster, row, column);
  row *= tile_m;
  column *= tile_n;

  // The steps of this block, maybe none.
  const int all = (k + stage_k - 1) / stage_k;
  const int from = static_cast<int>(static_cast<long long>(all) * part / cluster);
  const int steps = static_cast<int>(static_cast<long long>(all) * (part + 1) / cluster) - from;

  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  if (warpgroup == P::consumers) {
    if (threadIdx.x == P::consumers * 128) {
      for (int step = 0; step < steps; ++step) ring.load(map_a, map_b, row, column, (from + step) * stage_k);
    }
    __syncwarp();
  } else {
    float sums[1][tile_n / 2];
    if (steps == 0) {
#pragma unroll
      for (int j = 0; j < tile_n / 2; ++j) sums[0][j] = 0.0f;
    } else {
      ring.multiply(sums, warpgroup * 64, steps);
      ring.finish(sums);
    }
    // All stages have been read by all warps, and nothing more arrives: the memory is free for the sums.
    group_sync(1, P::consumers * 128);
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
    float* tile = reinterpret_cast<float*>(memory + (base - shared_address(memory)));
#pragma unroll
    for (int j = 0; j < tile_n / 4; ++j) {
      const int y = warpgroup * 64 + warp * 16 + lane / 4 + j % 2 * 8, x = j / 2 * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(tile + y * P::stride + x) = make_float2(sums[0][j * 2], sums[0][j * 2 + 1]);
    }
  }
  cluster_arrive();
  cluster_wait();

  // Each block of the cluster adds up some rows, in the order of the parts of k. Threads after each other go along a row.
  unsigned remote[cluster];
#pragma unroll
  for (int i = 0; i < cluster; ++i) remote[i] = cluster_address(base, i);
  for (int unit = threadIdx.x; unit < P::units; unit += P::threads) {
    const int y = part * P::rows + unit / (tile_n / 4), x = unit % (tile_n / 4) * 4;
    float4 sum = cluster_read(remote[0] + (y * P::stride + x) * 4);
#pragma unroll
    for (int i = 1; i < cluster; ++i) {
      const float4 other = cluster_read(remote[i] + (y * P::stride + x) * 4);
      sum = make_float4(sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w);
    }
    store_four(out, sum, row + y, column + x, m, n, epilogue);
  }
  // A block stays until no other reads its shared memory any more.
  cluster_arrive_relaxed();
  cluster_wait();
}

}  // namespace gemm
