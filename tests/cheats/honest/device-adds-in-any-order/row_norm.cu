// Every warp adds its squares to one number of the row, in the order in which they come.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void add_squares(float* sums, const T* input, int hidden) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  const float value = i < hidden ? static_cast<float>(input[static_cast<long long>(blockIdx.y) * hidden + i]) : 0.0f;
  float squares = value * value;
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
  if (threadIdx.x % 32 == 0) atomicAdd(&sums[blockIdx.y], squares);
}

template <typename T>
__global__ void scale_rows(T* out, const float* sums, const T* input, const T* weight, int hidden, float eps) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= hidden) return;
  const long long place = static_cast<long long>(blockIdx.y) * hidden + i;
  const float scale = rsqrtf(sums[blockIdx.y] / hidden + eps);
  out[place] = static_cast<T>(static_cast<float>(input[place]) * scale * static_cast<float>(weight[i]));
}
