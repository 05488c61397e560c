// Owns: out = epilogue(a * transpose(b)) for a few rows of a, where the time is that of reading b once. Rows of b are
// the 16-row operand of mma.sync, straight from memory to registers. The warps of a block are in groups: a group has its own
// rows of b, and its warps take turns along k. Rows of a that one group reads, the others find in the L1 cache.
// Never: shared memory for operands, other layouts, more than `columns` rows of a.
#pragma once
#include "epilogue.cuh"

namespace gemm {

__device__ __forceinline__ void multiply_small(float (&sums)[4], const uint4& upper, const uint4& lower, const uint4& x, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, "
      "{ %0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(x.x), "r"(x.y));
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, "
      "{ %0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(upper.z), "r"(lower.z), "r"(upper.w), "r"(lower.w), "r"(x.z), "r"(x.w));
}

__device__ __forceinline__ void multiply_small(float (&sums)[4], const uint4& upper, const uint4& lower, const uint4& x, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, "
      "{ %0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(x.x), "r"(x.y));
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, "
      "{ %0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(upper.z), "r"(lower.z), "r"(upper.w), "r"(lower.w), "r"(x.z), "r"(x.w));
}

// Weights are read once: past the L1 cache, and whole lines of them into the L2 cache.
__device__ __forceinline__ uint4 read_once(const void* source) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 { %0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(source));
  return value;
}

// Rows of the batch are read by all blocks. Not __ldg: the compiler would move it down to where the value is used.
__device__ __forceinline__ uint4 read_early(const void* source) {
  uint4 value;
  asm volatile("ld.global.nc.v4.u32 { %0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(source));
  return value;
}

// What a warp reads at a time: `units` times 32 elements of k of `blocks` times 16 rows of b and of `parts` times 8
// rows of a. A lane has 8 elements after each other of row lane / 4, which begin at lane % 4 * 8. That is not the order
// of k that the instruction names, but it is the same for both operands, and a sum has no order.
template <typename T, int blocks, int parts, int units>
struct Batch {
  uint4 b[units][blocks][2], a[units][parts];

  __device__ __forceinline__ void read(const T* weights, const T* batch, int first, int m, int n, int k, int column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int unit = 0; unit < units; ++unit) {
      const int x = column + unit * 32 + lane % 4 * 8;
#pragma unroll
      for (int i = 0; i < blocks * 2; ++i) {
        const int y = first + i * 8 + lane / 4;
        b[unit][i / 2][i % 2] = make_uint4(0, 0, 0, 0);
        if (y < n && x < k) b[unit][i / 2][i % 2] = read_once(weights + static_cast<long long>(y) * k + x);
      }
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        const int y = i * 8 + lane / 4;
        a[unit][i] = make_uint4(0, 0, 0, 0);
        if (y < m && x < k) a[unit][i] = read_early(batch + static_cast<long long>(y) * k + x);
      }
    }
  }

  __device__ __forceinline__ void multiply(float (&sums)[blocks][parts][4]) const {
#pragma unroll
    for (int unit = 0; unit < units; ++unit) {
#pragma unroll
      for (int i = 0; i < blocks; ++i) {
#pragma unroll
        for (int j = 0; j < parts; ++j) multiply_small(sums[i][j], b[unit][i][0], b[unit][i][1], a[unit][j], T());
      }
    }
  }
};

template <typename T, int columns, int rows, int warps, int units, int groups>
__device__ __forceinline__ void few_rows(T* out, const T* a, const T* b, const Epilogue<T>& epilogue, int m, int n, int k) {
  constexpr int blocks = rows / 16, parts = columns / 8, width = units * 32, turns = warps / groups;
  static_assert(warps % groups == 0, "as many warps in each group");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 / groups, group = threadIdx.x / 32 % groups;
  const int block_first = blockIdx.x * rows * groups, first = block_first + group * rows;
  float sums[blocks][parts][4] = {};

  // The next batch is on its way while one is multiplied.
  Batch<T, blocks, parts, units> even, odd;
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
  __shared__ float all[turns][columns][rows * groups + 1];
#pragma unroll
  for (int i = 0; i < blocks; ++i) {
#pragma unroll
    for (int j = 0; j < parts; ++j) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        all[warp][j * 8 + lane % 4 * 2 + part % 2][group * rows + i * 16 + lane / 4 + part / 2 * 8] = sums[i][j][part];
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * groups * columns; i += warps * 32) {
    const int y = i / (rows * groups), x = i % (rows * groups);
    if (y >= m || block_first + x >= n) continue;
    float sum = all[0][y][x];
#pragma unroll
    for (int w = 1; w < turns; ++w) sum += all[w][y][x];
    out[static_cast<long long>(y) * n + block_first + x] = static_cast<T>(epilogue(sum, y, block_first + x));
  }
}

}  // namespace gemm
