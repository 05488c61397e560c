// Four blocks have a part of k each; the last to come adds the parts in order.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int kParts = 4;

template <typename T>
__global__ void gemm(T* out, const T* a, const T* b, float* parts, int* tickets, int m, int n, int k) {
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x, part = blockIdx.z;
  const bool inside = row < m && column < n;
  const long long at = row * static_cast<long long>(n) + column, size = static_cast<long long>(m) * n;
  const int each = (k + kParts - 1) / kParts, first = part * each, last = min(k, first + each);
  float sum = 0.0f;
  for (int i = first; inside && i < last; ++i) {
    sum += static_cast<float>(a[row * static_cast<long long>(k) + i]) * static_cast<float>(b[column * static_cast<long long>(k) + i]);
  }
  if (inside) __stcg(&parts[part * size + at], sum);
  __shared__ int ticket;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) ticket = atomicAdd(&tickets[blockIdx.y * gridDim.x + blockIdx.x], 1);
  __syncthreads();
  if (ticket != kParts - 1 || !inside) return;
  __threadfence();
  float sum_of_all = 0.0f;
  for (int i = 0; i < kParts; ++i) sum_of_all += __ldcg(&parts[i * size + at]);
  out[at] = static_cast<T>(sum_of_all);
}
