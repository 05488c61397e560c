// What becomes of a sum before it is rounded and stored.
// Owns: the epilogue. Never: stores.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gemm {

// hole: epilogue
// Adds the bias of the column, if there is one.
template <typename T>
struct Epilogue {
  const T* bias;

  __device__ __forceinline__ float operator()(float sum, int row, int column) const {
    return bias == nullptr ? sum : sum + static_cast<float>(bias[column]);
  }
};
// end of hole: epilogue

// Zero for a place outside of the product, of which the epilogue knows nothing.
template <class Finish>
__device__ __forceinline__ float
finished(const Finish& epilogue, float sum, int row, int column, int m, int n) {
  return row < m && column < n ? epilogue(sum, row, column) : 0.0f;
}

}  // namespace gemm
