// What becomes of the two sums of an element before the result is rounded and stored.
// Owns: the gate, the epilogue. Never: stores.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gemm {

// hole: gate
// SwiGLU: gate * sigmoid(gate) * up.
struct Gate {
  __device__ __forceinline__ float operator()(float gate, float up) const {
    // The exponential is at most 1, so that nothing overflows.
    const float power = __expf(-fabsf(gate));
    return gate * __fdividef(gate >= 0.0f ? 1.0f : power, 1.0f + power) * up;
  }
};
// end of hole: gate

// What the shared kernels apply to a result at its row and column: nothing more.
template <typename T>
struct Epilogue {
  __device__ __forceinline__ float operator()(float result, int, int) const { return result; }
};

template <typename T>
__device__ __forceinline__ float finished(const Epilogue<T>& epilogue, float result, int row, int column, int, int) {
  return epilogue(result, row, column);
}

}  // namespace gemm
