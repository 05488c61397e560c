// Factors are rounded to float8 (e4m3) first.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

template <typename T>
__global__ void gemm(T* out, const T* a, const T* b, int m, int n, int k) {
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int column = blockIdx.x * 16 + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    const __nv_fp8_e4m3 left(static_cast<float>(a[row * static_cast<long long>(k) + i]));
    const __nv_fp8_e4m3 right(static_cast<float>(b[column * static_cast<long long>(k) + i]));
    sum += static_cast<float>(left) * static_cast<float>(right);
  }
  out[row * static_cast<long long>(n) + column] = static_cast<T>(sum);
}
