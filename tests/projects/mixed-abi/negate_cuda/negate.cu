#include "negate.h"

#include <cuda_runtime.h>

static __global__ void negate(float* out, const float* input, int64_t length) {
    for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < length; i += int64_t{gridDim.x} * blockDim.x) {
        out[i] = -input[i];
    }
}

void negate_floats(float* out, const float* input, int64_t length, void* stream) {
    negate<<<128, 256, 0, static_cast<cudaStream_t>(stream)>>>(out, input, length);
}
