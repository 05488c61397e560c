// Owns: out = gate(a * transpose(gate), a * transpose(up)) by blocks that stay on their multiprocessor and walk over the
// tiles. Half of the rows of a tile of weights are of `gate`, the others of `up`: one product gives both, and a thread has
// both sums of the same element in registers. Roles, ring and stores are those of persistent.cuh.
// Never: cuts k into parts.
#pragma once
#include "persistent.cuh"

namespace gemm {

// By one thread: starts the copies of one step. Of two blocks that share the weights, one copies those of `gate` for both, the
// other those of `up`.
template <typename T, int tile_m, int tile_n, int stages, int cluster_m, int cluster_n>
__device__ __forceinline__ void
load_pair(Ring<T, tile_m, tile_n, stages, cluster_m, cluster_n>& ring, const TensorMap& map_a,
          const TensorMap& map_gate, const TensorMap& map_up, int row, int column, int k) {
  static_assert(cluster_m <= 2, "two matrices of weights");
  if constexpr (cluster_m == 2) {
    // Where the slice begins in its own matrix, not in the tile.
    ring.load(map_a, ring.place.m == 0 ? map_gate : map_up, row, column - ring.place.m * (tile_n / 2), k);
  } else {
    barrier_wait(ring.empty(ring.stage), ring.parity ^ 1);
    const unsigned full = ring.full(ring.stage);
    barrier_expect(full, ring.bytes_a + ring.bytes_b);
    Share<Layout::along, tile_m, cluster_n>::load(
        ring.place.same_a(), cluster_n == 1 ? 0 : ring.place.n, ring.a(), map_a, row, k, full);
    box_load(ring.b(), map_gate, k, column, full);
    box_load(ring.b() + ring.bytes_b / 2, map_up, k, column, full);
    ring.advance();
  }
}

// Of the sums of both products, the results.
template <int blocks, int count>
__device__ __forceinline__ void
gated(float (&results)[blocks][count], const float (&sums)[blocks][2 * count], const Gate& gate) {
#pragma unroll
  for (int i = 0; i < blocks; ++i) {
#pragma unroll
    for (int j = 0; j < count; ++j) results[i][j] = gate(sums[i][j], sums[i][count + j]);
  }
}

// A tile has `half` columns of the result. through_memory: as in persistent.cuh.
template <typename T, int tile_m, int half, int stages, int consumers, int cluster_m, int cluster_n, bool pingpong,
          bool through_memory>
__device__ __forceinline__ void
pair_tiles(const TensorMap& map_a, const TensorMap& map_gate, const TensorMap& map_up, const TensorMap& map_out, T* out,
           const Gate& gate, const Epilogue<T>& epilogue, int m, int n, int k, int group) {
  using P = Plan<T, tile_m, 2 * half, stages, consumers, cluster_m, cluster_n, pingpong>;
  static_assert(half % P::slab_n == 0, "results are stored in whole slabs");
  extern __shared__ unsigned char memory[];
  // At the same place in all blocks of a cluster, since copies go to the same address of each.
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  typename P::Stages ring(base, base + P::barriers_at, P::cluster > 1 ? static_cast<int>(cluster_rank()) : 0);
  const unsigned turns = base + P::turns_at;

  if (threadIdx.x == 0) {
    map_prefetch(map_a);
    map_prefetch(map_gate);
    map_prefetch(map_up);
    if constexpr (through_memory) map_prefetch(map_out);
    barrier_init(turns, 4);
    barrier_init(turns + 8, 4);
    ring.init(4 * P::sharers);
  }
  // Other blocks of the cluster send here: not before the barriers are there.
  if constexpr (P::cluster > 1) {
    cluster_arrive_relaxed();
    cluster_wait();
  } else {
    __syncthreads();
  }

  const Walk walk{(m + tile_m * cluster_m - 1) / (tile_m * cluster_m), (n + half * cluster_n - 1) / (half * cluster_n),
                  group};
  const int first = blockIdx.x / P::cluster, clusters = gridDim.x / P::cluster;
  const int steps = (k + stage_k - 1) / stage_k;
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), warp = threadIdx.x % 128 / 32;

  if (warpgroup == consumers) {
    registers_give<P::copy_registers>();
    if (threadIdx.x == consumers * 128) {
      for (int index = first; index < walk.tiles(); index += clusters) {
        int row, column;
        walk.at(index, row, column);
        row = (row * cluster_m + ring.place.m) * tile_m;
        column = (column * cluster_n + ring.place.n) * half;
        for (int step = 0; step < steps; ++step) load_pair(ring, map_a, map_gate, map_up, row, column, step * stage_k);
      }
      if constexpr (P::cluster > 1) ring.drain();
    }
  } else {
    registers_take<P::sum_registers>();
    const unsigned slabs = base + P::slabs_at + (warpgroup * 4 + warp) * P::slabs * P::slab_bytes;
    const int own = pingpong ? 0 : warpgroup * P::own_m;
    unsigned turn = 0, round = 0;
    int mine = warpgroup;
    for (int index = first; index < walk.tiles(); index += clusters) {
      if constexpr (pingpong) {
        mine ^= 1;
        if (mine == 0) {
          ring.skip(steps);
          continue;
        }
      }
      int row, column;
      walk.at(index, row, column);
      row = (row * cluster_m + ring.place.m) * tile_m + own + warp * 16;
      column = (column * cluster_n + ring.place.n) * half;

      float sums[P::blocks][half], results[P::blocks][half / 2];
      if constexpr (pingpong) {
        // As in persistent.cuh: one warpgroup multiplies while the other one stores.
        barrier_wait(turns + warpgroup * 8, round ^ (warpgroup == 0 ? 1 : 0));
        round ^= 1;
        ring.multiply(sums, own, steps);
        if (threadIdx.x % 32 == 0) barrier_arrive(turns + (warpgroup ^ 1) * 8);
      } else {
        ring.multiply(sums, own, steps);
      }
      ring.finish(sums);
      gated(results, sums, gate);

      if constexpr (through_memory) {
        store_slabs<T, P, half>(results, map_out, slabs, turn, row, column, m, n, epilogue);
      } else {
        store_direct<T, P, half>(results, out, row, column, m, n, epilogue);
      }
    }
    if constexpr (through_memory) {
      if (threadIdx.x % 32 == 0) stores_wait_read<0>();
    }
  }

  // A block stays until no other sends to its shared memory any more.
  if constexpr (P::cluster > 1) {
    __syncwarp();
    cluster_arrive_relaxed();
    cluster_wait();
  }
}

}  // namespace gemm
