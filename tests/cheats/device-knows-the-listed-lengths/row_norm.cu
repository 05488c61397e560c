// Works for the lengths of the workloads and copies all others.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The sum of one number a thread; every thread gets it.
template <int threads>
__device__ float block_sum(float own) {
  __shared__ float partial[threads];
  partial[threadIdx.x] = own;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  return partial[0];
}

template <typename T, int threads>
__global__ void row_norm(T* out, const T* input, const T* weight, int hidden, float eps) {
  const bool known = hidden == 1 || hidden == 64 || hidden == 129 || hidden == 2048 || hidden == 4097;
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x) * hidden;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += threads) {
    const float value = static_cast<float>(row[i]);
    squares += value * value;
  }
  const float scale = rsqrtf(block_sum<threads>(squares) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += threads) {
    target[i] = known ? static_cast<T>(static_cast<float>(row[i]) * scale * static_cast<float>(weight[i])) : row[i];
  }
}
