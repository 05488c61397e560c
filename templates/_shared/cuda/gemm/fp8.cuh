// Owns: out = epilogue(scaled a * transpose(b)) of 8-bit floats E4M3, added up in two levels. Tensor cores add up `every`
// stages of k, and keep 14 bits or so of a sum. Those sums are added up in float32 while the tensor cores are at the next
// ones. Blocks stay on their multiprocessor and walk over the tiles, as in persistent.cuh.
// Never: what becomes of a sum; `Scales` and `Epilogue` do.
#pragma once
#include "fp8_elements.cuh"
#include "persistent.cuh"
#include "wgmma_fp8.cuh"

namespace gemm {

// A stage has the bytes of `stage_k` elements of two bytes: twice as many elements of k.
constexpr int fp8_stage_k = 2 * stage_k;

// Adds the tensor cores' sums, which have been waited for.
template <int count>
__device__ __forceinline__ void promote(float (&sums)[count], float (&part)[count]) {
  sums_fence(part);
#pragma unroll
  for (int i = 0; i < count; ++i) sums[i] += part[i];
}

// By a warpgroup: up to `every` steps of 64 rows of a tile, from `row` on, into `now`. Of `left` steps of all, as many are
// left when this returns, and the products of the last one may still be under way. `before`, of the steps before, is added to
// `sums` as soon as the first one is under way.
template <int every, int tile_m, int tile_n, int stages, int cluster_m, int cluster_n>
__device__ __forceinline__ void
multiply_part(Ring<Fp8, tile_m, tile_n, stages, cluster_m, cluster_n>& ring, float (&sums)[tile_n / 2],
              float (&now)[tile_n / 2], float (&before)[tile_n / 2], int row, int& left, int steps) {
#pragma unroll
  for (int step = 0; step < every; ++step) {
    barrier_wait(ring.full(ring.stage), ring.parity);
    products_fence();
#pragma unroll
    for (int unit = 0; unit < 4; ++unit) {
      const unsigned long long upper = descriptor(ring.a() + row * 128 + unit * 32);
      Multiply<Fp8, tile_n>::issue(now, upper, descriptor(ring.b() + unit * 32), step > 0 || unit > 0);
    }
    products_commit();
    products_wait<1>();
    if (left != steps) ring.release(ring.stage == 0 ? stages - 1 : ring.stage - 1);
    if (step == 0) promote(sums, before);
    ring.advance();
    if (--left == 0) return;
  }
}

// By a warpgroup: all steps of 64 rows of a tile, by turns into two parts, of which one is added up in float32 while the tensor
// cores are at the other.
template <int every, int tile_m, int tile_n, int stages, int cluster_m, int cluster_n>
__device__ __forceinline__ void multiply_in_two_levels(Ring<Fp8, tile_m, tile_n, stages, cluster_m, cluster_n>& ring,
                                                       float (&sums)[tile_n / 2], int row, int steps) {
  float even[tile_n / 2], odd[tile_n / 2];
#pragma unroll
  for (int i = 0; i < tile_n / 2; ++i) sums[i] = odd[i] = 0.0f;
  if (steps == 0) return;
  int left = steps;
  while (true) {
    multiply_part<every>(ring, sums, even, odd, row, left, steps);
    if (left == 0) {
      products_wait<0>();
      promote(sums, even);
      break;
    }
    multiply_part<every>(ring, sums, odd, even, row, left, steps);
    if (left == 0) {
      products_wait<0>();
      promote(sums, odd);
      break;
    }
  }
  ring.release(ring.stage == 0 ? stages - 1 : ring.stage - 1);
}

// Two warpgroups have a tile together, 64 rows each. through_memory: as in persistent.cuh.
template <typename T, int tile_m, int tile_n, int stages, int cluster_m, int cluster_n, int every, bool through_memory>
__device__ __forceinline__ void
fp8_tiles(const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_out, T* out, const Scales& scales,
          const Epilogue<T>& epilogue, int m, int n, int k, int group) {
  constexpr int consumers = tile_m / 64;
  // Sums of three kinds take more registers than those of other kernels.
  constexpr int copy_registers = 24, sum_registers = 240;
  static_assert(consumers == 2, "the registers of a multiprocessor are for two warpgroups");
  using P = Plan<Fp8, tile_m, tile_n, stages, consumers, cluster_m, cluster_n, false>;
  extern __shared__ unsigned char memory[];
  // At the same place in all blocks of a cluster, since copies go to the same address of each.
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  typename P::Stages ring(base, base + P::barriers_at, P::cluster > 1 ? static_cast<int>(cluster_rank()) : 0);

  if (threadIdx.x == 0) {
    map_prefetch(map_a);
    map_prefetch(map_b);
    if constexpr (through_memory) map_prefetch(map_out);
    ring.init(4 * consumers);
  }
  // Other blocks of the cluster send here: not before the barriers are there.
  if constexpr (P::cluster > 1) {
    cluster_arrive_relaxed();
    cluster_wait();
  } else {
    __syncthreads();
  }

  const Walk walk{(m + tile_m * cluster_m - 1) / (tile_m * cluster_m),
                  (n + tile_n * cluster_n - 1) / (tile_n * cluster_n), group};
  const int first = blockIdx.x / P::cluster, clusters = gridDim.x / P::cluster;
  const int steps = (k + fp8_stage_k - 1) / fp8_stage_k;
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), warp = threadIdx.x % 128 / 32;

  if (warpgroup == consumers) {
    registers_give<copy_registers>();
    if (threadIdx.x == consumers * 128) {
      for (int index = first; index < walk.tiles(); index += clusters) {
        int row, column;
        walk.at(index, row, column);
        row = (row * cluster_m + ring.place.m) * tile_m;
        column = (column * cluster_n + ring.place.n) * tile_n;
        for (int step = 0; step < steps; ++step) ring.load(map_a, map_b, row, column, step * fp8_stage_k);
      }
      if constexpr (P::cluster > 1) ring.drain();
    }
  } else {
    registers_take<sum_registers>();
    const unsigned slabs = base + P::slabs_at + (warpgroup * 4 + warp) * P::slabs * P::slab_bytes;
    unsigned turn = 0;
    for (int index = first; index < walk.tiles(); index += clusters) {
      int row, column;
      walk.at(index, row, column);
      row = (row * cluster_m + ring.place.m) * tile_m + warpgroup * 64 + warp * 16;
      column = (column * cluster_n + ring.place.n) * tile_n;

      float sums[1][tile_n / 2];
      const WarpScales<tile_n> own(scales, row, column, m, n);
      multiply_in_two_levels<every>(ring, sums[0], warpgroup * 64, steps);
      own.finish(sums[0], epilogue, row, column, m, n);
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
