// Owns: what is special to 8-bit floats E4M3: the same numbers in 16 bits, which hold every one of them (not a number stays that),
// and the scales of rows.
// Never: products, stores.
#pragma once
#include <cuda_fp8.h>

#include "epilogue.cuh"

namespace gemm {

using Fp8 = __nv_fp8_e4m3;

__device__ __forceinline__ unsigned widened_pair(unsigned bytes) {
  const __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes), __NV_E4M3);
  return pair.x | static_cast<unsigned>(pair.y) << 16;
}

// The first or the last 8 of 16 elements.
__device__ __forceinline__ uint4 widened(const uint4& bytes, bool last) {
  const unsigned near = last ? bytes.z : bytes.x, far = last ? bytes.w : bytes.y;
  return make_uint4(widened_pair(near & 0xffff), widened_pair(near >> 16), widened_pair(far & 0xffff),
                    widened_pair(far >> 16));
}

// Multiplies the sums of a warp with the scales of their rows and columns.
template <int count>
__device__ __forceinline__ void scale(float (&sums)[count], const Scales& scales, int row, int column, int m, int n) {
  const int lane = threadIdx.x % 32, upper = row + lane / 4, lower = upper + 8;
  const float of_upper = upper < m ? scales.a[upper] : 0.0f, of_lower = lower < m ? scales.a[lower] : 0.0f;
#pragma unroll
  for (int j = 0; j < count / 4; ++j) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const int x = column + j * 8 + lane % 4 * 2 + part;
      const float of_column = x < n ? scales.b[x] : 0.0f;
      sums[j * 4 + part] = sums[j * 4 + part] * of_upper * of_column;
      sums[j * 4 + 2 + part] = sums[j * 4 + 2 + part] * of_lower * of_column;
    }
  }
}

}  // namespace gemm
