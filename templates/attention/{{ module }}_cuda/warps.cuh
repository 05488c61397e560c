// Attention on any GPU of capability 8.0 or later: warps multiply fragments of 16 by 16 with mma.sync, from two stages of k
// and v in shared memory.
// Owns: copies to shared memory, the main loop. Never: the mask, the softmax, stores.
#pragma once
#include "fragments.cuh"
#include "tiles.cuh"

namespace attention {

// Where a unit of 8 elements of a row lies, in bytes. Units are permuted so that the same unit of eight rows after each other
// lies in all banks.
template <int width>
__device__ __forceinline__ unsigned place_of(int row, int unit) {
  return (row * (width / 8) + (unit ^ row % 8)) * 16;
}

// Starts the copies of `rows` rows from `first` on; zeros stand for rows and columns outside.
template <typename T, int width, int rows, int threads>
__device__ __forceinline__ void fetch(unsigned target, const T* matrix, int first, const int height, const int columns) {
  constexpr int units = width / 8;
  static_assert(rows * units % threads == 0, "every thread copies as much");
#pragma unroll
  for (int i = 0; i < rows * units / threads; ++i) {
    const int at = i * threads + threadIdx.x, row = at / units, unit = at % units;
    const bool inside = first + row < height && unit * 8 < columns;
    const long long place = static_cast<long long>(first + row) * columns + unit * 8;
    gemm::copy(target + place_of<width>(row, unit), matrix + (inside ? place : 0), inside);
  }
}

// A block computes a tile of 16 rows for each of its warps. `keys` rows of k and v are a stage; rows of all have at most
// `width` elements.
template <typename T, int width, int keys, int warps, bool biased>
__device__ __forceinline__ void
warp_tile(const Tensors<T>& tensors, const Mask& mask, const Shape& shape, float scale) {
  constexpr int height = warps * 16, threads = warps * 32, bytes = keys * width * 2;
  extern __shared__ unsigned char memory[];
  const unsigned tile_q = gemm::shared_address(memory), stages = tile_q + height * width * 2;
  const Tile tile = Tiles{shape, height}.at(blockIdx.x);
  const long long matrix_q = static_cast<long long>(tile.batch) * shape.heads + tile.head;
  const long long matrix_k =
      static_cast<long long>(tile.batch) * shape.kv_heads + tile.head / (shape.heads / shape.kv_heads);
  const T* const q = tensors.q + matrix_q * shape.rows * shape.width;
  const T* const k = tensors.k + matrix_k * shape.keys * shape.width;
  const T* const v = tensors.v + matrix_k * shape.keys * shape.width;

  const int lane = threadIdx.x % 32, top = threadIdx.x / 32 * 16;
  const int row = tile.row + top + lane / 4;
  float results[width / 2] = {};
  Rows rows;

  // Walks one block ahead of the products.
  Blocks<keys, height> ahead(mask, tile, shape);
  const auto start = [&](int stage) {
    fetch<T, width, keys, threads>(stages + stage * 2 * bytes, k, ahead.block * keys, shape.keys, shape.width);
    fetch<T, width, keys, threads>(stages + (stage * 2 + 1) * bytes, v, ahead.block * keys, shape.keys, shape.width);
  };
  bool more = ahead.next();
  if (more) {
    fetch<T, width, height, threads>(tile_q, q, tile.row, shape.rows, shape.width);
    start(0);
  }
  gemm::copies_commit();
  for (int stage = 0; more; stage ^= 1) {
    const int block = ahead.block;
    const Counts counts = ahead.counts;
    more = ahead.next();
    if (more) start(stage ^ 1);
    // A group for each block, though the last is empty: groups are counted.
    gemm::copies_commit();
    gemm::wait_for_copies<1>();
    __syncthreads();
    typename AddedIf<T, keys, biased>::Type added;
    added.load(tensors.bias, row, block * keys, shape.rows, shape.keys);

    const unsigned tile_k = stages + stage * 2 * bytes, tile_v = tile_k + bytes;
    float scores[keys / 2] = {};
    const auto sums = [](float* all, int i) -> float(&)[4] { return *reinterpret_cast<float(*)[4]>(all + i * 4); };
    constexpr int unrolled = width > 128 ? 8 : width / 16;
#pragma unroll unrolled
    for (int unit = 0; unit < width / 8; unit += 2) {
      unsigned left[4];
      gemm::load_fragment(left, tile_q + place_of<width>(top + lane % 16, unit + lane / 16));
#pragma unroll
      for (int j = 0; j < keys / 16; ++j) {
        unsigned right[4];
        gemm::load_fragment(right, tile_k + place_of<width>(j * 16 + lane / 16 * 8 + lane % 8, unit + lane / 8 % 2));
        gemm::multiply_fragments(sums(scores, j * 2), left, right[0], right[1], T());
        gemm::multiply_fragments(sums(scores, j * 2 + 1), left, right[2], right[3], T());
      }
    }

    const float unit = finished(mask, counts, scores, added, scale, tile.batch, tile.head, row, block * keys + lane % 4 * 2,
                                shape.rows, shape.keys);
    float shrink[2];
    rows.weigh<false>(scores, unit, shrink);
#pragma unroll
    for (int i = 0; i < width / 2; ++i) results[i] *= shrink[i / 2 % 2];

#pragma unroll
    for (int step = 0; step < keys / 16; ++step) {
      unsigned left[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = gemm::pack(scores[step * 8 + i * 2], scores[step * 8 + i * 2 + 1], T());
#pragma unroll
      for (int j = 0; j < width / 16; ++j) {
        unsigned right[4];
        gemm::load_transposed(right, tile_v + place_of<width>(step * 16 + lane % 16, j * 2 + lane / 16));
        gemm::multiply_fragments(sums(results, j * 2), left, right[0], right[1], T());
        gemm::multiply_fragments(sums(results, j * 2 + 1), left, right[2], right[3], T());
      }
    }
    // All have read the stage that is written next.
    __syncthreads();
  }
  gemm::wait_for_copies<0>();
  store<T, width, biased>(tensors, results, rows, mask, tile, row, shape, scale);
}

}  // namespace attention
