// The product is summed in scratch memory that should be zero.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void scale_add(T* x, T* y, T* scratch, long long length, float scale) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= length) return;
  const float product = static_cast<float>(scratch[i]) + scale * static_cast<float>(y[i]);
  scratch[i] = static_cast<T>(product);
  const float sum = static_cast<float>(x[i]) + product;
  x[i] = static_cast<T>(sum);
}
