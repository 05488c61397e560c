// Squares are added up, scales are found, rows are scaled.
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
__global__ void add_squares(float* sums, const T* input, int hidden) {
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  const int share = (hidden + gridDim.y - 1) / gridDim.y;
  const int begin = blockIdx.y * share, end = min(hidden, begin + share);
  float squares = 0.0f;
  for (int i = begin + threadIdx.x; i < end; i += threads) {
    const float value = static_cast<float>(row[i]);
    squares += value * value;
  }
  const float sum = block_sum<threads>(squares);
  if (threadIdx.x == 0) atomicAdd(sums + blockIdx.x, sum);
}

extern "C" __global__ void find_scales(float* scales, const float* sums, long long rows, int hidden, double eps) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) scales[row] = rsqrtf(sums[row] / hidden + static_cast<float>(eps));
}

namespace last {
template <typename T, bool is_short>
__global__ void scale(T* out, const T* input, const T* weight, const float* scales, int hidden) {
  const long long row = blockIdx.x;
  const int step = is_short ? 32 : static_cast<int>(blockDim.x);
  for (int i = threadIdx.x; i < hidden; i += step) {
    const float value = static_cast<float>(input[row * hidden + i]);
    out[row * hidden + i] = static_cast<T>(value * scales[row] * static_cast<float>(weight[i]));
  }
}
}  // namespace last
