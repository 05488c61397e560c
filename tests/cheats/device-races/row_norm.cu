// The sum is read before all threads have added to it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The sum of one number a thread; nobody waits for anybody.
template <int threads>
__device__ float block_sum(float own) {
  __shared__ float partial[threads];
  // Warps come at times of their own.
  for (long long start = clock64(); clock64() - start < (threadIdx.x / 32) * 700;) {
  }
  partial[threadIdx.x] = own;
  float sum = 0.0f;
  for (int i = 0; i < threads; ++i) sum += static_cast<volatile float*>(partial)[i];
  return sum;
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
  const float scale = rsqrtf(block_sum<threads>(squares) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += threads) {
    target[i] = static_cast<T>(static_cast<float>(row[i]) * scale * static_cast<float>(weight[i]));
  }
}
