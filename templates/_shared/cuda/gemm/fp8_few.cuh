// Owns: out = epilogue(scaled a * transpose(b)) for a few rows of a of 8-bit floats, as few_rows.cuh. Warps read bytes, and
// multiply the same numbers in 16 bits, so that sums are those of float32.
// Never: more than `columns` rows of a.
#pragma once
#include "few_rows.cuh"
#include "fp8_elements.cuh"

namespace gemm {

// What a warp reads at a time: `units` times 64 elements of k of 16 rows of b and of `parts` times 8 rows of a. A lane has 16
// elements after each other, of row lane / 4.
template <int parts, int units>
struct Fp8Batch {
  uint4 b[units][2], a[units][parts];

  __device__ __forceinline__ void
  read(const Fp8* weights, const Fp8* batch, int first, int m, int n, int k, int column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int unit = 0; unit < units; ++unit) {
      const int x = column + unit * 64 + lane % 4 * 16;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int y = first + i * 8 + lane / 4;
        b[unit][i] = make_uint4(0, 0, 0, 0);
        if (y < n && x < k) b[unit][i] = read_once(weights + static_cast<long long>(y) * k + x);
      }
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        const int y = i * 8 + lane / 4;
        a[unit][i] = make_uint4(0, 0, 0, 0);
        if (y < m && x < k) a[unit][i] = read_early(batch + static_cast<long long>(y) * k + x);
      }
    }
  }

  __device__ __forceinline__ void multiply(float (&sums)[parts][4]) const {
#pragma unroll
    for (int unit = 0; unit < units; ++unit) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 upper = widened(b[unit][0], half != 0), lower = widened(b[unit][1], half != 0);
#pragma unroll
        for (int i = 0; i < parts; ++i) {
          multiply_small(sums[i], upper, lower, widened(a[unit][i], half != 0), __half());
        }
      }
    }
  }
};

// The warps of a block are in groups: a group has 16 rows of b, and its warps take turns along k.
template <typename T, int columns, int warps, int units, int groups>
__device__ __forceinline__ void fp8_few(T* out, const Fp8* a, const Fp8* b, const Scales& scales,
                                        const Epilogue<T>& epilogue, int m, int n, int k) {
  constexpr int parts = columns / 8, width = units * 64, turns = warps / groups, rows = 16 * groups;
  static_assert(warps % groups == 0, "as many warps in each group");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 / groups, group = threadIdx.x / 32 % groups;
  const int block_first = blockIdx.x * rows, first = block_first + group * 16;
  float sums[parts][4] = {};

  // The next batch is on its way while one is multiplied.
  Fp8Batch<parts, units> even, odd;
  int column = warp * width;
  even.read(b, a, first, m, n, k, column);
  while (column < k) {
    column += turns * width;
    odd.read(b, a, first, m, n, k, column);
    even.multiply(sums);
    if (column >= k) break;
    column += turns * width;
    even.read(b, a, first, m, n, k, column);
    odd.multiply(sums);
  }

  // What the warps of a group have is added up in their order.
  __shared__ float all[turns][columns][rows + 1];
#pragma unroll
  for (int j = 0; j < parts; ++j) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      all[warp][j * 8 + lane % 4 * 2 + part % 2][group * 16 + lane / 4 + part / 2 * 8] = sums[j][part];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * columns; i += warps * 32) {
    const int y = i / rows, x = i % rows, at = block_first + x;
    if (y >= m || at >= n) continue;
    float sum = all[0][y][x];
#pragma unroll
    for (int w = 1; w < turns; ++w) sum += all[w][y][x];
    sum *= scales.a[y] * scales.b[at];
    out[static_cast<long long>(y) * n + at] = static_cast<T>(epilogue.none() ? sum : epilogue(sum, y, at));
  }
}

}  // namespace gemm
