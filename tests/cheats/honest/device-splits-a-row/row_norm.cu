// Two blocks sum half a row each; the one that comes last scales the row.
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
__global__ void row_norm(T* out, const T* input, const T* weight, int hidden, float eps,
                         float* partial, int* arrived) {
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x) * hidden;
  float squares = 0.0f;
  for (int i = threadIdx.x + blockIdx.y * threads; i < hidden; i += 2 * threads) {
    const float value = static_cast<float>(row[i]);
    squares += value * value;
  }
  const float half = block_sum<threads>(squares);
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.x + blockIdx.y] = half;
    __threadfence();
    last = atomicAdd(&arrived[blockIdx.x], 1) == 1;
    if (last) arrived[blockIdx.x] = 0;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  const volatile float* halves = partial + 2 * blockIdx.x;
  const float scale = rsqrtf((halves[0] + halves[1]) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += threads) {
    target[i] = static_cast<T>(static_cast<float>(row[i]) * scale * static_cast<float>(weight[i]));
  }
}
