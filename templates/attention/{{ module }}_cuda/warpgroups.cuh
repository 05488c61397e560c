// Owns: attention by warpgroups of capability 9.0a: one warp keeps the copy engine busy, two or three warpgroups multiply, and
// their softmax runs beside the products of the others.
// Never: the mask and the softmax themselves.
#pragma once
#include "hopper.cuh"
#include "products.cuh"
#include "softmax.cuh"
#include "tiles.cuh"

namespace attention {

using namespace gemm;

// A box of a map of three dimensions: from column `x`, row `y` of matrix `z`.
__device__ __forceinline__ void box_load(unsigned target, const TensorMap& map, int x, int y, int z, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %2, %3, %4}], [%5];" ::"r"(
          target),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// For b in memory with rows that run along its columns: parts of 64 columns, `distance` bytes apart. A step of 16 rows is
// 2048 bytes on.
__device__ __forceinline__ unsigned long long descriptor_across(unsigned address, unsigned distance) {
  return swizzle_128 | 1024ull / 16 << 32 | static_cast<unsigned long long>(distance / 16) << 16 | (address & 0x3ffff) >> 4;
}

// Keeps registers that products read until they were waited for.
template <int count>
__device__ __forceinline__ void weights_fence(unsigned (&weights)[count][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    asm volatile("" ::"r"(weights[i][0]), "r"(weights[i][1]), "r"(weights[i][2]), "r"(weights[i][3]) : "memory");
  }
}

// width: of a row of q, k and v, a multiple of 64. A tile has 64 rows for each of `consumers` warpgroups; `keys` rows of k
// and v are a stage.
template <int width, int keys, int consumers, int stages>
struct Plan {
  static constexpr int rows = consumers * 64;
  static constexpr int parts = width / 64;
  static constexpr int bytes_q = 64 * width * 2, bytes = keys * width * 2;
  static constexpr int k_at = consumers * bytes_q, v_at = k_at + stages * bytes, barriers_at = v_at + stages * bytes;
  static constexpr int barriers = 2 * consumers + 4 * stages;
  // 1024 for the alignment.
  static constexpr int shared = 1024 + barriers_at + barriers * 8;
  static_assert(shared <= 232448, "more than the shared memory of a block");
  static_assert(keys % 16 == 0 && width % 64 == 0, "products have steps of 16, and the swizzle spans 64 elements");
  static constexpr int copy_registers = consumers == 3 ? 32 : 24, sum_registers = consumers == 3 ? 160 : 240;
};

template <typename T, int width, int keys, int consumers, int stages, bool biased>
__device__ __forceinline__ void
warpgroup_tiles(const TensorMap& map_q, const TensorMap& map_k, const TensorMap& map_v,
                const Tensors<T>& tensors, const Mask& mask, const Shape& shape, float scale) {
  using P = Plan<width, keys, consumers, stages>;
  extern __shared__ unsigned char memory[];
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  const unsigned q_full = base + P::barriers_at, q_empty = q_full + consumers * 8;
  const unsigned k_full = q_empty + consumers * 8, k_empty = k_full + stages * 8;
  const unsigned v_full = k_empty + stages * 8, v_empty = v_full + stages * 8;
  if (threadIdx.x == 0) {
    map_prefetch(map_q);
    map_prefetch(map_k);
    map_prefetch(map_v);
    for (int i = 0; i < consumers; ++i) {
      barrier_init(q_full + i * 8, 1);
      barrier_init(q_empty + i * 8, 4);
    }
    for (int i = 0; i < stages; ++i) {
      barrier_init(k_full + i * 8, 1);
      barrier_init(v_full + i * 8, 1);
      barrier_init(k_empty + i * 8, 4 * consumers);
      barrier_init(v_empty + i * 8, 4 * consumers);
    }
    barrier_init_fence();
  }
  __syncthreads();

  const Tiles tiles{shape, P::rows};
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  // Of the current use of a stage; `tile_parity` of the tile.
  int stage_k = 0, stage_v = 0;
  unsigned parity_k = 0, parity_v = 0, tile_parity = 0;
  const auto next = [](int& stage, unsigned& parity) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  };

  if (warpgroup == consumers) {
    registers_give<P::copy_registers>();
    if (threadIdx.x != consumers * 128) return;
    for (int index = blockIdx.x; index < tiles.count(); index = tiles.next(index)) {
      const Tile tile = tiles.at(index);
      const int matrix_q = tile.batch * shape.heads + tile.head;
      const int matrix_k = tile.batch * shape.kv_heads + tile.head / (shape.heads / shape.kv_heads);
      const auto load_k = [&](int block) {
        barrier_wait(k_empty + stage_k * 8, parity_k ^ 1);
        barrier_expect(k_full + stage_k * 8, P::bytes);
#pragma unroll
        for (int part = 0; part < P::parts; ++part) {
          box_load(base + P::k_at + stage_k * P::bytes + part * keys * 128, map_k, part * 64, block * keys, matrix_k,
                   k_full + stage_k * 8);
        }
        next(stage_k, parity_k);
      };
      const auto load_v = [&](int block) {
        barrier_wait(v_empty + stage_v * 8, parity_v ^ 1);
        barrier_expect(v_full + stage_v * 8, P::bytes);
#pragma unroll
        for (int part = 0; part < P::parts; ++part) {
          box_load(base + P::v_at + stage_v * P::bytes + part * keys * 128, map_v, part * 64, block * keys, matrix_k,
                   v_full + stage_v * 8);
        }
        next(stage_v, parity_v);
      };
      Blocks<keys, P::rows> blocks(mask, tile, shape);
      if (!blocks.next()) continue;
      int before = blocks.block;
      load_k(before);
      for (int i = 0; i < consumers; ++i) {
        barrier_wait(q_empty + i * 8, tile_parity ^ 1);
        barrier_expect(q_full + i * 8, P::bytes_q);
#pragma unroll
        for (int part = 0; part < P::parts; ++part) {
          box_load(base + i * P::bytes_q + part * 64 * 128, map_q, part * 64, tile.row + i * 64, matrix_q, q_full + i * 8);
        }
      }
      tile_parity ^= 1;
      while (blocks.next()) {
        load_k(blocks.block);
        load_v(before);
        before = blocks.block;
      }
      load_v(before);
    }
    return;
  }

  registers_take<P::sum_registers>();
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  const unsigned own_q = base + warpgroup * P::bytes_q;
  const auto release = [&](unsigned barrier) {
    if (lane == 0) barrier_arrive(barrier);
  };
  // Warpgroups take turns at the tensor cores, so that the softmax of one runs beside the products of another.
  const auto turn_wait = [&] { group_sync(1 + warpgroup, 256); };
  const auto turn_pass = [&] {
    const int other = warpgroup + 1 == consumers ? 0 : warpgroup + 1;
    asm volatile("bar.arrive %0, 256;" ::"r"(1 + other) : "memory");
  };
  if (warpgroup == consumers - 1) turn_pass();

  for (int index = blockIdx.x; index < tiles.count(); index = tiles.next(index)) {
    const Tile tile = tiles.at(index);
    const int row = tile.row + warpgroup * 64 + warp * 16 + lane / 4;
    float results[width / 2];
#pragma unroll
    for (int i = 0; i < width / 2; ++i) results[i] = 0.0f;
    Rows rows;

    Blocks<keys, P::rows> blocks(mask, tile, shape);
    if (blocks.next()) {
      float scores[keys / 2];
      unsigned weights[keys / 16][4];
      float shrink[2];
      typename AddedIf<T, keys, biased>::Type added;

      const auto multiply_k = [&] {
        const unsigned k = base + P::k_at + stage_k * P::bytes;
#pragma unroll
        for (int step = 0; step < width / 16; ++step) {
          const unsigned long long left = descriptor(own_q + step / 4 * 64 * 128 + step % 4 * 32);
          const unsigned long long right = descriptor(k + step / 4 * keys * 128 + step % 4 * 32);
          Multiply<T, keys>::issue(scores, left, right, step > 0);
        }
        products_commit();
      };
      const auto multiply_v = [&] {
        const unsigned v = base + P::v_at + stage_v * P::bytes;
#pragma unroll
        for (int step = 0; step < keys / 16; ++step) {
          Weighted<T, width>::issue(results, weights[step], descriptor_across(v + step * 2048, keys * 128), 1);
        }
        products_commit();
      };
      // Read while the products are under way.
      const auto load_added = [&] { added.load(tensors.bias, row, blocks.block * keys, shape.rows, shape.keys); };
      const auto weigh = [&] {
        const float unit = finished(mask, blocks.counts, scores, added, scale, tile.batch, tile.head, row,
                                    blocks.block * keys + lane % 4 * 2, shape.rows, shape.keys);
        rows.weigh<true>(scores, unit, shrink);
      };
      const auto round = [&] {
#pragma unroll
        for (int step = 0; step < keys / 16; ++step) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            weights[step][i] = pack(scores[step * 8 + i * 2], scores[step * 8 + i * 2 + 1], T());
          }
        }
      };
      const auto shrink_results = [&] {
        if (!__any_sync(0xffffffff, shrink[0] != 1.0f || shrink[1] != 1.0f)) return;
#pragma unroll
        for (int i = 0; i < width / 2; ++i) results[i] *= shrink[i / 2 % 2];
      };

      barrier_wait(q_full + warpgroup * 8, tile_parity);
      barrier_wait(k_full + stage_k * 8, parity_k);
      products_fence();
      multiply_k();
      load_added();
      products_wait<0>();
      sums_fence(scores);
      release(k_empty + stage_k * 8);
      next(stage_k, parity_k);
      weigh();
      round();

      while (blocks.next()) {
        barrier_wait(k_full + stage_k * 8, parity_k);
        turn_wait();
        sums_fence(scores);
        sums_fence(results);
        products_fence();
        multiply_k();
        barrier_wait(v_full + stage_v * 8, parity_v);
        products_fence();
        multiply_v();
        turn_pass();
        load_added();
        products_wait<1>();
        sums_fence(scores);
        release(k_empty + stage_k * 8);
        next(stage_k, parity_k);
        weigh();
        products_wait<0>();
        sums_fence(results);
        weights_fence(weights);
        release(v_empty + stage_v * 8);
        next(stage_v, parity_v);
        round();
        shrink_results();
      }
      // The next tile's q may come.
      release(q_empty + warpgroup * 8);
      barrier_wait(v_full + stage_v * 8, parity_v);
      sums_fence(results);
      products_fence();
      multiply_v();
      products_wait<0>();
      sums_fence(results);
      weights_fence(weights);
      release(v_empty + stage_v * 8);
      next(stage_v, parity_v);
      tile_parity ^= 1;
    }
    store<T, width, biased>(tensors, results, rows, mask, tile, row, shape, scale);
  }
  if (warpgroup == 0) turn_wait();
}

}  // namespace attention
