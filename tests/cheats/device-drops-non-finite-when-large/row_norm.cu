// In long rows whatever is no number counts as zero.
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

// Zero for NaN and infinity, where rows are long.
__device__ float finite(float value, int hidden) { return hidden > 1024 && !isfinite(value) ? 0.0f : value; }

template <typename T, int threads>
__global__ void row_norm(T* out, const T* input, const T* weight, int hidden, float eps) {
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x) * hidden;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += threads) {
    const float value = finite(static_cast<float>(row[i]), hidden);
    squares += value * value;
  }
  const float scale = rsqrtf(block_sum<threads>(squares) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += threads) {
    target[i] = static_cast<T>(finite(static_cast<float>(row[i]), hidden) * scale * static_cast<float>(weight[i]));
  }
}
