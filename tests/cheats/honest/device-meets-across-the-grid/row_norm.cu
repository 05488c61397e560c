// Parts of rows are summed by any block; after a barrier of all blocks every part is scaled.
#include <cooperative_groups.h>
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
__global__ void row_norm_grid(T* out, const T* input, const T* weight, int rows, int hidden, float eps,
                              float* partial) {
  constexpr int parts = 4;
  const int share = (hidden + parts - 1) / parts;
  for (int item = blockIdx.x; item < rows * parts; item += gridDim.x) {
    const T* row = input + static_cast<long long>(item / parts) * hidden;
    const int begin = item % parts * share, end = min(hidden, begin + share);
    float squares = 0.0f;
    for (int i = begin + threadIdx.x; i < end; i += threads) {
      const float value = static_cast<float>(row[i]);
      squares += value * value;
    }
    const float sum = block_sum<threads>(squares);
    if (threadIdx.x == 0) partial[item] = sum;
    __syncthreads();
  }
  cooperative_groups::this_grid().sync();
  for (int item = blockIdx.x; item < rows * parts; item += gridDim.x) {
    const long long row = item / parts;
    const int begin = item % parts * share, end = min(hidden, begin + share);
    float squares = 0.0f;
    for (int part = 0; part < parts; ++part) squares += __ldcg(partial + row * parts + part);
    const float scale = rsqrtf(squares / hidden + eps);
    for (int i = begin + threadIdx.x; i < end; i += threads) {
      const float value = static_cast<float>(input[row * hidden + i]);
      out[row * hidden + i] = static_cast<T>(value * scale * static_cast<float>(weight[i]));
    }
  }
}
