// Owns: out = gate(a * transpose(gate), a * transpose(up)) where there are few tiles and k is long: as push.cuh, with both
// products in one tile, as in pair.cuh.
// Never: more than one tile a cluster, memory beside the result.
#pragma once
#include "add_up.cuh"
#include "pair.cuh"

namespace gemm {

template <typename T, int tile_m, int half, int stages, int cluster>
__device__ __forceinline__ void
push_pair(const TensorMap& map_a, const TensorMap& map_gate, const TensorMap& map_up, T* out, const Gate& gate,
          const Epilogue<T>& epilogue, int m, int n, int k, int group) {
  using P = PushPlan<T, tile_m, 2 * half, stages, cluster>;
  extern __shared__ unsigned char memory[];
  // At the same place in all blocks of the cluster.
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  const int part = static_cast<int>(cluster_rank());
  typename P::Stages ring(base, base + P::barriers_at);
  const unsigned arrived = base + P::arrived_at;

  if (threadIdx.x == 0) {
    map_prefetch(map_a);
    map_prefetch(map_gate);
    map_prefetch(map_up);
    barrier_init(arrived, 1);
    ring.init(4 * P::consumers);
    barrier_expect(arrived, P::awaited);
  }
  __syncthreads();
  // The other blocks' barriers must be there when this one sends: it waits for them only then.
  cluster_arrive_relaxed();

  const Walk walk{(m + tile_m - 1) / tile_m, (n + half - 1) / half, group};
  int row, column;
  walk.at(blockIdx.x / cluster, row, column);
  row *= tile_m;
  column *= half;
  // The steps of this block, maybe none.
  const int all = (k + stage_k - 1) / stage_k;
  const int from = static_cast<int>(static_cast<long long>(all) * part / cluster);
  const int steps = static_cast<int>(static_cast<long long>(all) * (part + 1) / cluster) - from;

  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  if (warpgroup == P::consumers) {
    if (threadIdx.x == P::consumers * 128) {
      for (int step = 0; step < steps; ++step) {
        load_pair(ring, map_a, map_gate, map_up, row, column, (from + step) * stage_k);
      }
    }
    __syncwarp();
    cluster_wait();
    return;
  }

  float sums[1][half];
  if (steps == 0) {
#pragma unroll
    for (int j = 0; j < half; ++j) sums[0][j] = 0.0f;
  } else {
    ring.multiply(sums, warpgroup * 64, steps);
    ring.finish(sums);
  }
  cluster_wait();
  if (!add_up<P, cluster>(sums[0], base, part)) return;

  float results[1][half / 2];
  gated(results, sums, gate);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int part_y = 0; part_y < 2; ++part_y) {
    const int y = row + warp * 16 + part_y * 8 + lane / 4;
#pragma unroll
    for (int j = 0; j < half / 8; j += 2) {
      const float* result = results[0] + j * 4 + part_y * 2;
      store_pairs(out, result, result + 4, y, column + j * 8, m, n, epilogue);
    }
  }
}

}  // namespace gemm
