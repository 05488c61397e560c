// NaN.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int threads>
__global__ void row_norm(T* out, const T* input, const T* weight, int hidden, float eps) {
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x) * hidden;
  for (int i = threadIdx.x; i < hidden; i += threads) target[i] = static_cast<T>(__int_as_float(0x7fc00000));
}
