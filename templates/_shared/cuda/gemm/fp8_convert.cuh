// Owns: 8-bit floats E4M3 as 16-bit ones, which hold every one of them. Not a number stays that.
// Never: loads or stores.
#pragma once
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace gemm {

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

}  // namespace gemm
