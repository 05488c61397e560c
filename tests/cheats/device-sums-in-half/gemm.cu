// Sums in float16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void gemm(T* out, const T* a, const T* b, int m, int n, int k) {
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int column = blockIdx.x * 16 + threadIdx.x;
  if (row >= m || column >= n) return;
  __half sum = __float2half(0.0f);
  for (int i = 0; i < k; ++i) {
    sum = __hadd(sum, __float2half(static_cast<float>(a[row * static_cast<long long>(k) + i]) * static_cast<float>(b[column * static_cast<long long>(k) + i])));
  }
  out[row * static_cast<long long>(n) + column] = static_cast<T>(__half2float(sum));
}
