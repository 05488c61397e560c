// On tensor cores, with sums in float32.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Two neighbours in k of a row; zeros outside.
template <typename T>
__device__ unsigned pair(const T* matrix, int row, int rows, int at, int k) {
  T both[2];
  for (int i = 0; i < 2; ++i) {
    both[i] = row < rows && at + i < k ? matrix[row * static_cast<long long>(k) + at + i] : static_cast<T>(0.0f);
  }
  unsigned bits;
  memcpy(&bits, both, sizeof(bits));
  return bits;
}

__device__ void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Blocks of 256 threads: the first two warps have 16 rows and eight columns each.
template <typename T>
__global__ void gemm(T* out, const T* a, const T* b, int m, int n, int k) {
  const int thread = threadIdx.y * 16 + threadIdx.x, warp = thread / 32, lane = thread % 32;
  if (warp > 1) return;
  const int row = blockIdx.y * 16 + lane / 4, column = blockIdx.x * 16 + warp * 8, own = lane % 4 * 2;
  float sums[4] = {};
  for (int at = own; at - own < k; at += 16) {
    const unsigned left[4] = {pair(a, row, m, at, k), pair(a, row + 8, m, at, k), pair(a, row, m, at + 8, k), pair(a, row + 8, m, at + 8, k)};
    const unsigned right[2] = {pair(b, column + lane / 4, n, at, k), pair(b, column + lane / 4, n, at + 8, k)};
    multiply(sums, left, right, T{});
  }
  for (int i = 0; i < 4; ++i) {
    const int to = row + i / 2 * 8, at = column + own + i % 2;
    if (to < m && at < n) out[to * static_cast<long long>(n) + at] = static_cast<T>(sums[i]);
  }
}
