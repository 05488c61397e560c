// Owns: the ring of stages in shared memory through which tiles of a and b go from the copy engine to the tensor cores:
// who waits for whom, and the main loop of the products.
// Never: which tiles are computed, and what becomes of the sums.
#pragma once
#include "hopper.cuh"
#include "wgmma.cuh"

namespace gemm {

// So many elements of k make a stage: a row of a tile is the 128 bytes that the swizzle spans.
constexpr int stage_k = 64;

template <typename T, int tile_m, int tile_n, int stages>
struct Ring {
  static constexpr int bytes_a = tile_m * stage_k * 2, bytes_b = tile_n * stage_k * 2;
  static constexpr int bytes = stages * (bytes_a + bytes_b), barrier_bytes = stages * 16;
  static_assert(bytes_a % 1024 == 0 && bytes_b % 1024 == 0, "the swizzle has a period of 1024 bytes");

  unsigned tiles, barriers;
  int stage = 0;
  // The parity of the current use of the current stage: 0 the first time round, then 1.
  unsigned parity = 0;

  __device__ __forceinline__ Ring(unsigned tiles, unsigned barriers) : tiles(tiles), barriers(barriers) {}

  __device__ __forceinline__ unsigned a() const { return tiles + stage * bytes_a; }
  __device__ __forceinline__ unsigned b() const { return tiles + stages * bytes_a + stage * bytes_b; }
  __device__ __forceinline__ unsigned full(int at) const { return barriers + at * 8; }
  __device__ __forceinline__ unsigned empty(int at) const { return barriers + (stages + at) * 8; }

  // By one thread. So many warps will release a stage.
  __device__ __forceinline__ void init(int warps) const {
    for (int i = 0; i < stages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), warps);
    }
    barrier_init_fence();
  }

  __device__ __forceinline__ void advance() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }

  // Past the steps of a tile that another warpgroup multiplies.
  __device__ __forceinline__ void skip(int steps) {
    const int past = stage + steps;
    parity ^= past / stages & 1;
    stage = past % stages;
  }

  // By one thread: starts the copies of one step, once all who read the stage before have released it.
  __device__ __forceinline__ void load(const TensorMap& map_a, const TensorMap& map_b, int row, int column, int k) {
    barrier_wait(empty(stage), parity ^ 1);
    // Whole boxes are counted, also where they reach beyond the matrix.
    barrier_expect(full(stage), bytes_a + bytes_b);
    box_load(a(), map_a, k, row, full(stage));
    box_load(b(), map_b, k, column, full(stage));
    advance();
  }

  // By each warp that multiplies, when its products no longer read the stage.
  __device__ __forceinline__ void release(int at) const {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty(at));
  }

  // By a warpgroup: adds up `steps` steps of `blocks` blocks of 64 rows, from `row` of the tile on. One group of products is
  // always under way while the next stage is waited for. The last one may still be when this returns.
  template <int blocks>
  __device__ __forceinline__ void multiply(float (&sums)[blocks][tile_n / 2], int row, int steps) {
    int before = 0;
    for (int step = 0; step < steps; ++step) {
      barrier_wait(full(stage), parity);
      products_fence();
#pragma unroll
      for (int part = 0; part < stage_k / 16; ++part) {
        const unsigned long long right = descriptor(b() + part * 32);
#pragma unroll
        for (int i = 0; i < blocks; ++i) {
          const unsigned long long left = descriptor(a() + (row + i * 64) * 128 + part * 32);
          Multiply<T, tile_n>::issue(sums[i], left, right, step > 0 || part > 0);
        }
      }
      products_commit();
      products_wait<1>();
      if (step > 0) release(before);
      before = stage;
      advance();
    }
  }

  // Waits for the last products of `multiply`, and releases the stage that they read.
  template <int blocks>
  __device__ __forceinline__ void finish(float (&sums)[blocks][tile_n / 2]) {
    products_wait<0>();
#pragma unroll
    for (int i = 0; i < blocks; ++i) sums_fence(sums[i]);
    release(stage == 0 ? stages - 1 : stage - 1);
  }
};

// The order in which tiles are walked: `group` rows of tiles together, column by column, so that the tiles under way at one
// time share what they read through the L2 cache.
struct Walk {
  int rows, columns, group;

  __device__ __forceinline__ int tiles() const { return rows * columns; }

  __device__ __forceinline__ void at(int index, int& row, int& column) const {
    const int walked = index / (group * columns) * group;
    const int height = min(group, rows - walked), within = index % (group * columns);
    row = walked + within % height;
    column = within / height;
  }
};

}  // namespace gemm
