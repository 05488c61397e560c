// Owns: out = epilogue(a * transpose(b)) where there are few tiles and k is long, as split.cuh. But each block sends its
// sums of another block's rows to that block (st.async), whose barrier counts the bytes: no fence of the whole GPU, no
// reading of remote memory. Sums are added in the order of the parts, so that the result is the same in every run.
// Never: more than one tile a cluster, memory beside the result.
#pragma once
#include "ring.cuh"
#include "store.cuh"

namespace gemm {

template <typename T, int tile_m, int tile_n, int stages, int cluster, Layout layout_a = Layout::along, Layout layout_b = Layout::along>
struct PushPlan {
  using Stages = Ring<T, tile_m, tile_n, stages, 1, 1, layout_a, layout_b>;
  // Warpgroups that multiply. A warp has 16 rows of the tile; a block finishes those of `own` warps.
  static constexpr int consumers = tile_m / 64, warps = consumers * 4, own = warps / cluster;
  static_assert(tile_m % 64 == 0 && warps % cluster == 0, "a block finishes the rows of whole warps");
  static constexpr int warp_bytes = 16 * tile_n * 4, awaited = (cluster - 1) * own * warp_bytes;
  static constexpr int sums_at = Stages::bytes, barriers_at = sums_at + awaited;
  static constexpr int arrived_at = barriers_at + Stages::barrier_bytes;
  static constexpr int shared = 1024 + arrived_at + 8;
  static_assert(shared <= 232448, "more than the shared memory of a block");
};

template <typename T, int tile_m, int tile_n, int stages, int cluster, Layout layout_a = Layout::along,
          Layout layout_b = Layout::along, class Finish>
__device__ __forceinline__ void push_tile(const TensorMap& map_a, const TensorMap& map_b, T* out,
                                          const Finish& epilogue, int m, int n, int k, int group) {
  using P = PushPlan<T, tile_m, tile_n, stages, cluster, layout_a, layout_b>;
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
  const int all = (k + stage_k - 1) / stage_k;
  const int from = static_cast<int>(static_cast<long long>(all) * part / cluster);
  const int steps = static_cast<int>(static_cast<long long>(all) * (part + 1) / cluster) - from;

  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  if (warpgroup == P::consumers) {
    if (threadIdx.x == P::consumers * 128) {
      for (int step = 0; step < steps; ++step) ring.load(map_a, map_b, row, column, (from + step) * stage_k);
    }
    __syncwarp();
    cluster_wait();
    return;
  }

  float sums[1][tile_n / 2];
  if (steps == 0) {
#pragma unroll
    for (int j = 0; j < tile_n / 2; ++j) sums[0][j] = 0.0f;
  } else {
    ring.multiply(sums, warpgroup * 64, steps);
    ring.finish(sums);
  }
  cluster_wait();

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, owner = warp / P::own;
  const unsigned place = base + P::sums_at + warp % P::own * P::warp_bytes + lane * 16;
  if (owner != part) {
    // The owner has room for all others, in the order of their ranks.
    const int before = part - (part > owner ? 1 : 0);
    const unsigned remote = cluster_address(place + before * P::own * P::warp_bytes, owner);
    const unsigned remote_barrier = cluster_address(arrived, owner);
#pragma unroll
    for (int j = 0; j < tile_n / 8; ++j) {
      const float* four = sums[0] + j * 4;
      cluster_send(remote + j * 512, remote_barrier, four[0], four[1], four[2], four[3]);
    }
    return;
  }

  barrier_wait(arrived, 0);
#pragma unroll
  for (int j = 0; j < tile_n / 8; ++j) {
    float* four = sums[0] + j * 4;
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < cluster; ++i) {
      float4 value = make_float4(four[0], four[1], four[2], four[3]);
      if (i != part) value = shared_read(place + j * 512 + (i - (i > part ? 1 : 0)) * P::own * P::warp_bytes);
      total = i == 0 ? value : make_float4(total.x + value.x, total.y + value.y, total.z + value.z, total.w + value.w);
    }
    four[0] = total.x;
    four[1] = total.y;
    four[2] = total.z;
    four[3] = total.w;
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int y = row + warp * 16 + half * 8 + lane / 4;
#pragma unroll
    for (int j = 0; j < tile_n / 8; j += 2) {
      const float* sum = sums[0] + j * 4 + half * 2;
      store_pairs(out, sum, sum + 4, y, column + j * 8, m, n, epilogue);
    }
  }
}

}  // namespace gemm
