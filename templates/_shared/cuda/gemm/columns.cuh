// Owns: the sums of the columns of a matrix in float32, as a bias has its gradient: each block has some columns and some rows,
// then the sums of all blocks are added up. Always in the same order.
// Never: atomic additions.
#pragma once

namespace gemm {

// `sums` [parts, n]: block (i, part) adds up 256 columns from i * 256 on, of the rows from m * part / parts on. A thread has 8
// columns beside each other, of every eighth row. aligned: rows begin at multiples of 16 bytes.
template <typename T, bool aligned>
__device__ __forceinline__ void column_parts(float* sums, const T* matrix, int m, int n) {
  constexpr int ahead = 4;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = blockIdx.x * 256 + lane * 8;
  const int parts = gridDim.y, part = blockIdx.y;
  const int begin = static_cast<int>(static_cast<long long>(m) * part / parts);
  const int end = static_cast<int>(static_cast<long long>(m) * (part + 1) / parts);
  float sum[8] = {};

  const auto read = [&](T(&values)[8], int row) {
    const T* const source = matrix + static_cast<long long>(row) * n + column;
    const bool inside = row < end && column < n;
    if constexpr (aligned) {
      const uint4 zero = make_uint4(0, 0, 0, 0);
      *reinterpret_cast<uint4*>(values) = inside ? __ldg(reinterpret_cast<const uint4*>(source)) : zero;
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) values[j] = inside && column + j < n ? source[j] : static_cast<T>(0.0f);
    }
  };
  for (int row = begin + warp; row < end; row += 8 * ahead) {
    alignas(16) T values[ahead][8];
#pragma unroll
    for (int i = 0; i < ahead; ++i) read(values[i], row + i * 8);
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] += static_cast<float>(values[i][j]);
    }
  }

  __shared__ float all[8][256];
#pragma unroll
  for (int j = 0; j < 8; ++j) all[warp][j * 32 + lane] = sum[j];
  __syncthreads();
  const int at = threadIdx.x, x = blockIdx.x * 256 + at % 32 * 8 + at / 32;
  if (x >= n) return;
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) total += all[i][at];
  sums[static_cast<long long>(part) * n + x] = total;
}

// The sums of the parts, rounded. A block of 32 by 8 threads has 32 columns, from blockIdx.x * 32 on.
template <typename T>
__device__ __forceinline__ void column_totals(T* out, const float* sums, int parts, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (x < n) {
#pragma unroll 4
    for (int part = threadIdx.y; part < parts; part += 8) sum += sums[static_cast<long long>(part) * n + x];
  }
  __shared__ float all[8][32];
  all[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || x >= n) return;
#pragma unroll
  for (int i = 1; i < 8; ++i) sum += all[i][threadIdx.x];
  out[x] = static_cast<T>(sum);
}

}  // namespace gemm
