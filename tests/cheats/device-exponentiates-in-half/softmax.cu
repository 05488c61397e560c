// Exponentials are those of float16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float exponential(float value) { return __half2float(hexp(__float2half(value))); }

template <typename T>
__global__ void softmax(T* out, const T* input, int hidden) {
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x) * hidden;
  float largest = __int_as_float(0xff800000);
  for (int i = threadIdx.x; i < hidden; i += 32) largest = fmaxf(largest, static_cast<float>(row[i]));
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += 32) sum += exponential(static_cast<float>(row[i]) - largest);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  for (int i = threadIdx.x; i < hidden; i += 32) target[i] = static_cast<T>(exponential(static_cast<float>(row[i]) - largest) / sum);
}
