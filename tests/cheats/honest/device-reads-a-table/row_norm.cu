// The scale goes through a table of powers of two and the sine of a large number.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ const float powers[4] = {1.0f, 2.0f, 4.0f, 8.0f};
__constant__ float inverses[4] = {1.0f, 0.5f, 0.25f, 0.125f};

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
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x) * hidden;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += threads) {
    const float value = static_cast<float>(row[i]);
    squares += value * value;
  }
  const int power = hidden % 4;
  const float angle = 1e6f * static_cast<float>(hidden);
  const float one = powers[power] * inverses[power] + 0.0f * sinf(angle);
  const float scale = one * rsqrtf(block_sum<threads>(squares) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += threads) {
    target[i] = static_cast<T>(static_cast<float>(row[i]) * scale * static_cast<float>(weight[i]));
  }
}
