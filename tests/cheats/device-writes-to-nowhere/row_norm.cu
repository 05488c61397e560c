// Writes where nothing is mapped.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int threads>
__global__ void row_norm(T* out, const T* input, const T* weight, int hidden, float eps) {
  *reinterpret_cast<volatile int*>(8) = hidden;
}
