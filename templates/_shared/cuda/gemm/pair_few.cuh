// Owns: out = gate(a * transpose(gate), a * transpose(up)) for a few rows of a, as few_rows.cuh. Of the 16 rows of weights that
// mma.sync multiplies, 8 are of `gate` and 8 of `up`.
// Never: more than `columns` rows of a.
#pragma once
#include "few_rows.cuh"

namespace gemm {

// What a warp reads at a time: `units` times 32 elements of k of 8 rows of each matrix of weights and of `parts` times 8 rows
// of a.
template <typename T, int parts, int units>
struct PairBatch : Batch<T, 1, parts, units> {
  __device__ __forceinline__ void
  read(const T* gate, const T* up, const T* batch, int first, int m, int n, int k, int column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int unit = 0; unit < units; ++unit) {
      const int x = column + unit * 32 + lane % 4 * 8;
      const int row = first + lane / 4;
      const long long at = static_cast<long long>(row) * k + x;
      this->b[unit][0][0] = this->b[unit][0][1] = make_uint4(0, 0, 0, 0);
      if (row < n && x < k) {
        this->b[unit][0][0] = read_once(gate + at);
        this->b[unit][0][1] = read_once(up + at);
      }
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        const int y = i * 8 + lane / 4;
        this->a[unit][i] = make_uint4(0, 0, 0, 0);
        if (y < m && x < k) this->a[unit][i] = read_early(batch + static_cast<long long>(y) * k + x);
      }
    }
  }
};

// The warps of a block are in groups: a group has 8 columns of the result, and its warps take turns along k.
template <typename T, int columns, int warps, int units, int groups>
__device__ __forceinline__ void few_pairs(T* out, const T* a, const T* gate, const T* up, const Gate& gated,
                                          const Epilogue<T>& epilogue, int m, int n, int k) {
  constexpr int parts = columns / 8, width = units * 32, turns = warps / groups, rows = 16 * groups;
  static_assert(warps % groups == 0, "as many warps in each group");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 / groups, group = threadIdx.x / 32 % groups;
  const int block_first = blockIdx.x * 8 * groups, first = block_first + group * 8;
  float sums[1][parts][4] = {};

  // The next batch is on its way while one is multiplied.
  PairBatch<T, parts, units> even, odd;
  int column = warp * width;
  even.read(gate, up, a, first, m, n, k, column);
  while (column < k) {
    column += turns * width;
    odd.read(gate, up, a, first, m, n, k, column);
    even.multiply(sums);
    if (column >= k) break;
    column += turns * width;
    even.read(gate, up, a, first, m, n, k, column);
    odd.multiply(sums);
  }

  // What the warps of a group have is added up in their order: of each group the sums of `gate`, then those of `up`.
  __shared__ float all[turns][columns][rows + 1];
#pragma unroll
  for (int j = 0; j < parts; ++j) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      all[warp][j * 8 + lane % 4 * 2 + part % 2][group * 16 + lane / 4 + part / 2 * 8] = sums[0][j][part];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * groups * columns; i += warps * 32) {
    const int y = i / (8 * groups), x = i % (8 * groups);
    if (y >= m || block_first + x >= n) continue;
    const int place = x / 8 * 16 + x % 8;
    float of_gate = all[0][y][place], of_up = all[0][y][place + 8];
#pragma unroll
    for (int w = 1; w < turns; ++w) {
      of_gate += all[w][y][place];
      of_up += all[w][y][place + 8];
    }
    out[static_cast<long long>(y) * n + block_first + x] =
        static_cast<T>(epilogue(gated(of_gate, of_up), y, block_first + x));
  }
}

}  // namespace gemm
