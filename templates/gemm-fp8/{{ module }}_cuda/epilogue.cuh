// What becomes of a sum before it is rounded and stored.
// Owns: scales, the epilogue. Never: stores.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gemm {

// A sum is multiplied with the scale of its row of a times that of its row of b.
struct Scales {
  const float *a, *b;
};

// hole: epilogue
// Adds the bias of the column, if there is one.
template <typename T>
struct Epilogue {
  const T* bias;

  // Whether it leaves all results as they are.
  __device__ __forceinline__ bool none() const { return bias == nullptr; }

  __device__ __forceinline__ float operator()(float scaled, int row, int column) const {
    return scaled + static_cast<float>(bias[column]);
  }
};
// end of hole: epilogue

// What the shared kernels apply when they store: nothing, since results have been finished before.
template <typename T>
__device__ __forceinline__ float finished(const Epilogue<T>&, float result, int, int, int, int) {
  return result;
}

}  // namespace gemm
