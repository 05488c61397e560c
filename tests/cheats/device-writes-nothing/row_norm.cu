// Does nothing at all.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T, int threads>
__global__ void row_norm(T* out, const T* input, const T* weight, int hidden, float eps) {
}
