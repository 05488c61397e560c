// Owns: out = epilogue(a * b) by blocks that stay on their multiprocessor and walk over the tiles. One warp keeps the
// copy engine busy, also while sums are stored; two or three warpgroups multiply.
// Never: cuts k into parts (split.cuh does).
#pragma once
#include "epilogue.cuh"
#include "ring.cuh"

namespace gemm {

// consumers: warpgroups that multiply. pingpong: each of two has its own tile, and stores it while the other multiplies.
// Otherwise all share a tile, and each has some of its rows.
template <typename T, int tile_m, int tile_n, int stages, int consumers, int cluster_m, int cluster_n, bool pingpong,
          Layout layout_a = Layout::along, Layout layout_b = Layout::along>
struct Plan {
  using Stages = Ring<T, tile_m, tile_n, stages, cluster_m, cluster_n, layout_a, layout_b>;
  static constexpr int cluster = cluster_m * cluster_n, sharers = pingpong ? 1 : consumers;
  static constexpr int own_m = tile_m / sharers, blocks = own_m / 64;
  static_assert(tile_m % (64 * sharers) == 0, "a warpgroup has whole blocks of 64 rows");
  static_assert(!pingpong || consumers == 2, "two warpgroups take turns");

  // A warp stores 16 rows by `slab_n` columns at a time, from two slabs in turn.
  static constexpr int slab_n = tile_n % 64 == 0 ? 64 : 32;
  static constexpr int slab_bytes = 16 * slab_n * 2, slabs = 2;
  static_assert(tile_n % slab_n == 0, "a tile is stored in whole slabs");

  static constexpr int slabs_at = Stages::bytes, barriers_at = slabs_at + consumers * 4 * slabs * slab_bytes;
  static constexpr int turns_at = barriers_at + Stages::barrier_bytes;
  // 1024 for the alignment.
  static constexpr int shared = 1024 + turns_at + 16;
  static_assert(shared <= 232448, "more than the shared memory of a block");

  // The registers of a multiprocessor are dealt again: few for the copies, the rest for the sums.
  static constexpr int copy_registers = consumers == 3 ? 32 : 40, sum_registers = consumers == 3 ? 160 : 232;
};

// Rounds the sums of a warp and stores them, 16 rows by `slab_n` columns at a time. Two stores are under way at most:
// a slab is written again when the store of the one before the last has read it. Warps need not wait for each other.
template <typename T, class P, int tile_n, class Finish>
__device__ __forceinline__ void store_slabs(float (&sums)[P::blocks][tile_n / 2], const TensorMap& map, unsigned slabs, unsigned& turn,
                        int row, int column, int m, int n, const Finish& epilogue) {
  constexpr int units = P::slab_n / 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < P::blocks; ++i) {
#pragma unroll
    for (int j = 0; j < tile_n / P::slab_n; ++j) {
      const int top = row + i * 64, left = column + j * P::slab_n;
      const unsigned slab = slabs + turn * P::slab_bytes;
      if (lane == 0) stores_wait_read<P::slabs - 1>();
      __syncwarp();
#pragma unroll
      for (int pair = 0; pair < units; pair += 2) {
        unsigned packed[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const float* sum = sums[i] + (j * units + pair) * 4 + part * 2;
          const int y = top + lane / 4 + part % 2 * 8, x = left + (pair + part / 2) * 8 + lane % 4 * 2;
          packed[part] = pack(finished(epilogue, sum[0], y, x, m, n), finished(epilogue, sum[1], y, x + 1, m, n), T());
        }
        // The permutation that the map of `out` has too; eight rows of a unit lie in all banks.
        const int at = lane % 16, unit = pair + lane / 16;
        const int swizzled = unit ^ (at * units / 8 & (units - 1));
        matrices_store(slab + (at * units + swizzled) * 16, packed[0], packed[1], packed[2], packed[3]);
      }
      shared_fence();
      __syncwarp();
      if (lane == 0) {
        if (top < m && left < n) box_store(map, left, top, slab);
        // A group also when nothing is stored: groups are counted.
        stores_commit();
      }
      turn ^= 1;
    }
  }
}

// The same straight from registers.
template <typename T, class P, int tile_n, class Finish>
__device__ __forceinline__ void store_direct(float (&sums)[P::blocks][tile_n / 2], T* out, int row, int column, int m, int n,
                         const Finish& epilogue) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < P::blocks; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int y = row + i * 64 + half * 8 + lane / 4;
      if (y >= m) continue;
      T* target = out + static_cast<long long>(y) * n;
#pragma unroll
      for (int j = 0; j < tile_n / 8; ++j) {
        const int x = column + j * 8 + lane % 4 * 2;
        const float* sum = sums[i] + j * 4 + half * 2;
        const unsigned pair =
            pack(finished(epilogue, sum[0], y, x, m, n), finished(epilogue, sum[1], y, x + 1, m, n), T());
        if (n % 2 == 0 && x < n) {
          *reinterpret_cast<unsigned*>(target + x) = pair;
        } else {
          const T* parts = reinterpret_cast<const T*>(&pair);
          if (x < n) target[x] = parts[0];
          if (x + 1 < n) target[x + 1] = parts[1];
        }
      }
    }
  }
}

// through_memory: results go through shared memory, in boxes that are clipped at the edges; rows of `out` begin at multiples
// of 16 bytes. Otherwise they are stored from registers, and `map_out` is not read. At least one step of k.
template <typename T, int tile_m, int tile_n, int stages, int consumers, int cluster_m, int cluster_n, bool pingpong,
          bool through_memory, Layout layout_a = Layout::along, Layout layout_b = Layout::along, class Finish>
__device__ __forceinline__ void
persistent_tiles(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_out, T* out,
                 const Finish& epilogue, int m, int n, int k, int group) {
  using P = Plan<T, tile_m, tile_n, stages, consumers, cluster_m, cluster_n, pingpong, layout_a, layout_b>;
  extern __shared__ unsigned char memory[];
  // At the same place in all blocks of a cluster, since copies go to the same address of each.
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  typename P::Stages ring(base, base + P::barriers_at, P::cluster > 1 ? static_cast<int>(cluster_rank()) : 0);
  const unsigned turns = base + P::turns_at;

  if (threadIdx.x == 0) {
    map_prefetch(map_a);
    map_prefetch(map_b);
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

  // Blocks of a cluster take tiles beside each other, and all take the same number of steps. A tile that lies outside is read
  // as zero and not stored.
  const Walk walk{(m + tile_m * cluster_m - 1) / (tile_m * cluster_m),
                  (n + tile_n * cluster_n - 1) / (tile_n * cluster_n), group};
  const int first = blockIdx.x / P::cluster, clusters = gridDim.x / P::cluster;
  const int steps = (k + stage_k - 1) / stage_k;
  // The same for all lanes, which the compiler sees by the shuffle: descriptors are made in uniform registers.
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), warp = threadIdx.x % 128 / 32;

  if (warpgroup == consumers) {
    registers_give<P::copy_registers>();
    if (threadIdx.x == consumers * 128) {
      for (int index = first; index < walk.tiles(); index += clusters) {
        int row, column;
        walk.at(index, row, column);
        row = (row * cluster_m + ring.place.m) * tile_m;
        column = (column * cluster_n + ring.place.n) * tile_n;
        for (int step = 0; step < steps; ++step) ring.load(map_a, map_b, row, column, step * stage_k);
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
      column = (column * cluster_n + ring.place.n) * tile_n;

      float sums[P::blocks][tile_n / 2];
      if constexpr (pingpong) {
        // The tensor cores are for one warpgroup at a time, else both would store at the same time as well. The second
        // one waits for the first; the first for the second, from its second tile on.
        barrier_wait(turns + warpgroup * 8, round ^ (warpgroup == 0 ? 1 : 0));
        round ^= 1;
        ring.multiply(sums, own, steps);
        if (threadIdx.x % 32 == 0) barrier_arrive(turns + (warpgroup ^ 1) * 8);
      } else {
        ring.multiply(sums, own, steps);
      }
      ring.finish(sums);

      if constexpr (through_memory) {
        store_slabs<T, P, tile_n>(sums, map_out, slabs, turn, row, column, m, n, epilogue);
      } else {
        store_direct<T, P, tile_n>(sums, out, row, column, m, n, epilogue);
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
