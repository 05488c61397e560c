#include "device.cuh"

__global__ void squares(int* out) {
    out[threadIdx.x] = kDeviceSquares[threadIdx.x % 8];
}

void start_squares(int* out) {
    squares<<<1, 8>>>(out);
}
