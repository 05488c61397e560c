// The bits that the result has no room for are dropped.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Towards zero in place of to nearest.
template <typename T>
__device__ T cut(float value);
template <>
__device__ __nv_bfloat16 cut<__nv_bfloat16>(float value) {
  return __float2bfloat16_rz(value);
}
template <>
__device__ __half cut<__half>(float value) {
  return __float2half_rz(value);
}

template <typename T>
__global__ void gemm(T* out, const T* a, const T* b, int m, int n, int k) {
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int column = blockIdx.x * 16 + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum += static_cast<float>(a[row * static_cast<long long>(k) + i]) * static_cast<float>(b[column * static_cast<long long>(k) + i]);
  }
  out[row * static_cast<long long>(n) + column] = cut<T>(sum);
}
