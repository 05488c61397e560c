// Owns: out = epilogue(scaled a * transpose(b)) of 8-bit floats where there are few tiles and k is long: as push.cuh, with the
// two levels of fp8.cuh.
// Never: more than one tile a cluster, memory beside the result.
#pragma once
#include "add_up.cuh"
#include "fp8.cuh"

namespace gemm {

template <typename T, int tile_m, int tile_n, int stages, int cluster, int every>
__device__ __forceinline__ void
fp8_push(const TensorMap& map_a, const TensorMap& map_b, T* out, const Scales& scales, const Epilogue<T>& epilogue,
         int m, int n, int k, int group) {
  using P = PushPlan<Fp8, tile_m, tile_n, stages, cluster>;
  extern __shared__ unsigned char memory[];
  // At the same place in all blocks of the cluster.
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  const int part = static_cast<int>(cluster_rank());
  typename P::Stages ring(base, base + P::barriers_at);
  const unsigned arrived = base + P::arrived_at;

  if (threadIdx.x == 0) {
    map_prefetch(map_a);
    map_prefetch(map_b);
    barrier_init(arrived, 1);
    ring.init(4 * P::consumers);
    barrier_expect(arrived, P::awaited);
  }
  __syncthreads();
  // The other blocks' barriers must be there when this one sends: it waits for them only then.
  cluster_arrive_relaxed();

  const Walk walk{(m + tile_m - 1) / tile_m, (n + tile_n - 1) / tile_n, group};
  int row, column;
  walk.at(blockIdx.x / cluster, row, column);
  row *= tile_m;
  column *= tile_n;
  // The steps of this block, maybe none.
  const int all = (k + fp8_stage_k - 1) / fp8_stage_k;
  const int from = static_cast<int>(static_cast<long long>(all) * part / cluster);
  const int steps = static_cast<int>(static_cast<long long>(all) * (part + 1) / cluster) - from;

  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  if (warpgroup == P::consumers) {
    if (threadIdx.x == P::consumers * 128) {
      for (int step = 0; step < steps; ++step) ring.load(map_a, map_b, row, column, (from + step) * fp8_stage_k);
    }
    __syncwarp();
    cluster_wait();
    return;
  }

  const int lane = threadIdx.x % 32, top = row + threadIdx.x / 32 * 16;
  const WarpScales<tile_n> own(scales, top, column, m, n);
  float sums[1][tile_n / 2];
  multiply_in_two_levels<every>(ring, sums[0], warpgroup * 64, steps);
  cluster_wait();
  if (!add_up<P, cluster>(sums[0], base, part)) return;

  own.finish(sums[0], epilogue, top, column, m, n);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < tile_n / 8; j += 2) {
      const float* sum = sums[0] + j * 4 + half * 2;
      store_pairs(out, sum, sum + 4, top + half * 8 + lane / 4, column + j * 8, m, n, epilogue);
    }
  }
}

}  // namespace gemm
