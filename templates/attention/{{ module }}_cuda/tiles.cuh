// Owns: which tile of rows a block computes, which blocks of keys it walks over, and how results are stored.
// Never: products.
#pragma once
#include "bias.cuh"
#include "exact.cuh"

namespace attention {

// The factor of scores; 0 stands for 1 / sqrt(width).
__device__ __forceinline__ float scaling(float scale, int width) {
  return scale != 0.0f ? scale : 1.0f / sqrtf(static_cast<float>(width));
}

struct Tile {
  int batch, head, row;
};

// The order in which tiles are computed. The last rows come first, because a causal mask leaves them the most to do; a block
// that stays goes to and fro over the list, so that each has as much to do.
struct Tiles {
  const Shape& shape;
  int height;

  __device__ __forceinline__ int column() const { return (shape.rows + height - 1) / height; }
  __device__ __forceinline__ int count() const { return column() * shape.batches * shape.heads; }

  __device__ __forceinline__ int next(int index) const {
    const int grid = gridDim.x, round = index / grid;
    return (round + 1) * grid + grid - 1 - index % grid;
  }

  __device__ __forceinline__ Tile at(int index) const {
    const int group = shape.group, columns = column();
    const int walked = index / (group * columns) * group, within = index % (group * columns);
    const int high = min(group, shape.batches * shape.heads - walked), matrix = walked + within % high;
    return {matrix / shape.heads, matrix % shape.heads, (columns - 1 - within / high) * height};
  }
};

// The blocks of keys that a tile walks over, from the last to the first.
template <int keys, int height>
struct Blocks {
  const Mask& mask;
  const Tile& tile;
  const Shape& shape;
  int block, first;
  Counts counts;

  __device__ __forceinline__ Blocks(const Mask& mask, const Tile& tile, const Shape& shape)
      : mask(mask), tile(tile), shape(shape), counts(Counts::nothing) {
    const Columns columns = mask.columns(tile.batch, tile.head, tile.row, min(tile.row + height, shape.rows) - 1);
    const int begin = max(columns.begin, 0), end = min(columns.end, shape.keys);
    first = begin / keys;
    block = end > begin ? (end + keys - 1) / keys : first;
  }

  // Goes to the next block of which something counts, if there is one.
  __device__ __forceinline__ bool next() {
    while (--block >= first) {
      counts = counted(mask, tile.batch, tile.head, tile.row, height, block * keys, keys, shape.rows, shape.keys);
      if (counts != Counts::nothing) return true;
    }
    return false;
  }
};

// Stores the results of a warp: those of `row` and of the row 8 below, four for each 8 columns. Threads of four exchange, so
// that each has 8 columns beside each other.
template <typename T, int width, bool biased>
__device__ __forceinline__ void store(const Tensors<T>& tensors, float (&results)[width / 2], Rows& rows, const Mask& mask,
                                      const Tile& tile, int row, const Shape& shape, float scale) {
  const int lane = threadIdx.x % 4;
  float factor[2], logarithm[2];
  rows.finish(factor, logarithm);
  const long long matrix = static_cast<long long>(tile.batch) * shape.heads + tile.head;
  bool odd[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int y = row + half * 8;
    const bool inside = y < shape.rows;
    const long long place = matrix * shape.rows + y;
    if (lane == 0 && inside) tensors.lse[place] = logarithm[half];
    bool finite = true;
#pragma unroll
    for (int group = 0; group < width / 32; ++group) {
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = results + (group * 4 + i) * 4 + half * 2;
        finite = finite && is_finite(pair[0]) && is_finite(pair[1]);
        // Nothing counts: zero, whatever v holds.
        const bool none = factor[half] == 0.0f && logarithm[half] == excluded();
        words[i] = none ? 0 : gemm::pack(pair[0] * factor[half], pair[1] * factor[half], T());
      }
      transpose(words, lane);
      const int column = group * 32 + lane * 8;
      if (inside && column < shape.width) {
        *reinterpret_cast<uint4*>(tensors.out + place * shape.width + column) =
            make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
    odd[half] = inside && !finite && is_finite(logarithm[half]);
  }

  // Hardly ever: rows of this warp to compute again.
  if (!__any_sync(0xffffffff, odd[0] || odd[1])) return;
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < 16; ++i) {
    // Four threads have a row.
    const unsigned own = 0xfu << i % 8 * 4;
    const bool far = i >= 8;
    if ((__ballot_sync(0xffffffff, far ? odd[1] : odd[0]) & own) == 0) continue;
    const float known = __shfl_sync(0xffffffff, far ? logarithm[1] : logarithm[0], i % 8 * 4);
    const int first = __shfl_sync(0xffffffff, row, 0);
    store_again<T, width, biased>(tensors, mask, shape, scale, tile.batch, tile.head, first + i, known);
  }
}

}  // namespace attention
