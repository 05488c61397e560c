// Owns: the ring of stages in shared memory through which tiles of a and b go from the copy engine to the tensor cores:
// who waits for whom, which block of a cluster copies what, and the main loop of the products.
// Never: which tiles are computed, and what becomes of the sums.
#pragma once
#include "hopper.cuh"
#include "wgmma.cuh"

namespace gemm {

// So many elements of k make a stage: a row of a tile is the 128 bytes that the swizzle spans.
constexpr int stage_k = 64;

// A wgmma takes 16 elements of k, which are so many bytes further on in a tile.
template <Layout layout>
constexpr int part_bytes = layout == Layout::along ? 32 : 2048;

// How the blocks of a cluster that need the same tile, `length` by stage_k elements, share out its copies. A tile that lies
// along k is one box, of which each block copies some rows. Across k it is boxes of 64 elements, one behind the other: a
// block copies some of them or, if they cannot be shared out, some rows of each. `box` is the height of the map's box.
template <Layout layout, int length, int sharers>
struct Share {
  static constexpr bool whole = length / 64 % sharers == 0;
  static constexpr int boxes = layout == Layout::along ? 1 : whole ? length / 64 / sharers : length / 64;
  static constexpr int box = layout == Layout::along ? length / sharers : whole ? stage_k : stage_k / sharers;
  static_assert(length % (layout == Layout::along ? 8 * sharers : 64) == 0 && box % 8 == 0, "boxes are whole periods");

  // For the block that is `turn` of those that share the tile, whose bits are `blocks`.
  __device__ __forceinline__ static void
  load(unsigned short blocks, int turn, unsigned target, const TensorMap& map, int first, int k, unsigned barrier) {
    if constexpr (layout == Layout::along) {
      copy(blocks, target + turn * box * 128, map, k, first + turn * box, barrier);
    } else {
#pragma unroll
      for (int i = 0; i < boxes; ++i) {
        const int at = whole ? turn * boxes + i : i, from = whole ? 0 : turn * box;
        copy(blocks, target + at * stage_k * 128 + from * 128, map, first + at * 64, k + from, barrier);
      }
    }
  }

 private:
  __device__ __forceinline__ static void
  copy(unsigned short blocks, unsigned target, const TensorMap& map, int x, int y, unsigned barrier) {
    if constexpr (sharers == 1) {
      box_load(target, map, x, y, barrier);
    } else {
      box_load_to(blocks, target, map, x, y, barrier);
    }
  }
};

// A block's place in its cluster. Blocks of one row of a cluster need the same tile of a, those of one column the same tile
// of b: each copies a slice of it, and sends that to all of them.
template <int cluster_m, int cluster_n>
struct Place {
  int m, n;

  __device__ __forceinline__ explicit Place(int rank) : m(rank % cluster_m), n(rank / cluster_m) {}

  __device__ __forceinline__ unsigned short same_a() const {
    unsigned blocks = 0;
#pragma unroll
    for (int i = 0; i < cluster_n; ++i) blocks |= 1u << (m + i * cluster_m);
    return static_cast<unsigned short>(blocks);
  }

  __device__ __forceinline__ unsigned short same_b() const {
    unsigned blocks = 0;
#pragma unroll
    for (int i = 0; i < cluster_m; ++i) blocks |= 1u << (i + n * cluster_m);
    return static_cast<unsigned short>(blocks);
  }

  // The blocks that write into this one, and into which this one writes: itself and those of its row and its column.
  static constexpr int peers = cluster_m + cluster_n - 1;

  __device__ __forceinline__ int peer(int i) const {
    if (i < cluster_m) return i + n * cluster_m;
    const int other = i - cluster_m;
    return m + (other + (other >= n ? 1 : 0)) * cluster_m;
  }
};

template <typename T, int tile_m, int tile_n, int stages, int cluster_m = 1, int cluster_n = 1,
          Layout layout_a = Layout::along, Layout layout_b = Layout::along>
struct Ring {
  static constexpr int bytes_a = tile_m * stage_k * 2, bytes_b = tile_n * stage_k * 2;
  static constexpr int bytes = stages * (bytes_a + bytes_b), barrier_bytes = stages * 16;
  static_assert(bytes_a % 1024 == 0 && bytes_b % 1024 == 0, "the swizzle has a period of 1024 bytes");

  unsigned tiles, barriers;
  Place<cluster_m, cluster_n> place;
  int stage = 0;
  // The parity of the current use of the current stage: 0 the first time round, then 1.
  unsigned parity = 0;

  __device__ __forceinline__ Ring(unsigned tiles, unsigned barriers, int rank = 0)
      : tiles(tiles), barriers(barriers), place(rank) {}

  __device__ __forceinline__ unsigned a() const { return tiles + stage * bytes_a; }
  __device__ __forceinline__ unsigned b() const { return tiles + stages * bytes_a + stage * bytes_b; }
  __device__ __forceinline__ unsigned full(int at) const { return barriers + at * 8; }
  __device__ __forceinline__ unsigned empty(int at) const { return barriers + (stages + at) * 8; }

  // By one thread. `warps` of each block that this one writes to, itself among them, will release a stage.
  __device__ __forceinline__ void init(int warps) const {
    for (int i = 0; i < stages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), warps * Place<cluster_m, cluster_n>::peers);
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
    // Whole boxes are counted, also where they reach beyond the matrix. Those of other blocks may come before this line: the
    // count is below zero for a while, but the phase cannot end before this arrival.
    barrier_expect(full(stage), bytes_a + bytes_b);
    Share<layout_a, tile_m, cluster_n>::load(place.same_a(), cluster_n == 1 ? 0 : place.n, a(), map_a, row, k, full(stage));
    Share<layout_b, tile_n, cluster_m>::load(place.same_b(), cluster_m == 1 ? 0 : place.m, b(), map_b, column, k, full(stage));
    advance();
  }

  // By the thread that loads, at the end: waits until every stage has been released, so that no arrival of another block
  // comes after this one has gone.
  __device__ __forceinline__ void drain() {
    for (int i = 0; i < stages; ++i) {
      barrier_wait(empty(stage), parity ^ 1);
      advance();
    }
  }

  // By each warp that multiplies, when its products no longer read the stage.
  __device__ __forceinline__ void release(int at) const {
    const int lane = threadIdx.x % 32;
    if constexpr (Place<cluster_m, cluster_n>::peers == 1) {
      if (lane == 0) barrier_arrive(empty(at));
    } else {
      if (lane < Place<cluster_m, cluster_n>::peers) barrier_arrive_at(empty(at), place.peer(lane));
    }
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
        const unsigned long long right = descriptor<layout_b>(b() + part * part_bytes<layout_b>);
#pragma unroll
        for (int i = 0; i < blocks; ++i) {
          const unsigned long long left = descriptor<layout_a>(a() + (row + i * 64) * 128 + part * part_bytes<layout_a>);
          Multiply<T, tile_n>::template issue<layout_a == Layout::across, layout_b == Layout::across>(
              sums[i], left, right, step > 0 || part > 0);
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
