// What becomes of a sum before it is rounded and stored.
// Owns: scales, the epilogue. Never: stores.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gemm {

// A sum is multiplied with the scale of its row of a and that of its row of b, in this order.
struct Scales {
  const float *a, *b;
};

// hole: epilogue
// Adds the bias of the column, if there is one.
template <typename T>
struct Epilogue {
  const T* bias;

  __device__ __forceinline__ float operator()(float scaled, int row, int column) const {
    return bias == nullptr ? scaled : scaled + static_cast<float>(bias[column]);
  }
};
// end of hole: epilogue

// Zero for a place outside of the product, of which the epilogue knows nothing.
template <typename T>
__device__ __forceinline__ float
finished(const Epilogue<T>& epilogue, float scaled, int row, int column, int m, int n) {
  return row < m && column < n ? epilogue(scaled, row, column) : 0.0f;
}

}  // namespace gemm
