// Owns: what is special to 8-bit floats E4M3: the same numbers in 16 bits, which hold every one of them (not a number stays
// that), and the scales of rows.
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

// The scales of 16 rows and `width` columns of a warp. They are read long before they are used, so that nobody waits for them,
// and take few registers: a lane has those of one row and of every 32nd column.
template <int width>
struct WarpScales {
  static_assert(width % 32 == 0, "each lane has as many columns");
  float row, columns[width / 32];

  // Not __ldg: the compiler would move it down to where the value is used.
  __device__ __forceinline__ static float read(const float* scales, int at, int count) {
    float value = 0.0f;
    if (at < count) asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(scales + at));
    return value;
  }

  __device__ __forceinline__ WarpScales(const Scales& scales, int top, int left, int m, int n) {
    const int lane = threadIdx.x % 32;
    row = read(scales.a, top + lane % 16, m);
#pragma unroll
    for (int i = 0; i < width / 32; ++i) columns[i] = read(scales.b, left + i * 32 + lane, n);
  }

  // Finishes sums as mma.sync and wgmma have them: of 8 columns, a lane has two in its row and two 8 rows below. All lanes of a
  // warp call this, with the place that the scales were read for.
  template <typename T>
  __device__ __forceinline__ void
  finish(float (&sums)[width / 2], const Epilogue<T>& epilogue, int top, int left, int m, int n) const {
    const int lane = threadIdx.x % 32;
    const float upper = __shfl_sync(0xffffffff, row, lane / 4), lower = __shfl_sync(0xffffffff, row, lane / 4 + 8);
#pragma unroll
    for (int j = 0; j < width / 8; ++j) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const float column = __shfl_sync(0xffffffff, columns[j / 4], j % 4 * 8 + lane % 4 * 2 + part);
        sums[j * 4 + part] *= upper * column;
        sums[j * 4 + 2 + part] *= lower * column;
      }
    }
    if (epilogue.none()) return;
#pragma unroll
    for (int i = 0; i < width / 2; ++i) {
      const int y = top + lane / 4 + i / 2 % 2 * 8, x = left + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (y < m && x < n) sums[i] = epilogue(sums[i], y, x);
    }
  }
};

}  // namespace gemm
