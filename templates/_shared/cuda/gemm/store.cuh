// Owns: how sums go from the registers of a product to `out`, if its rows may begin anywhere.
// Never: boxes through shared memory (persistent.cuh).
#pragma once
#include "epilogue.cuh"
#include "hopper.cuh"

namespace gemm {

// Finishes and stores the four sums that a lane has of 16 columns from `begin` on: `near` of two columns, from lane % 4 * 2
// on, and `far` of the two that lie 8 further on. All lanes of a warp call this.
template <typename T, class Finish>
__device__ __forceinline__ void store_pairs(
    T* out, const float* near, const float* far, int row, int begin, int m, int n, const Finish& epilogue) {
  const int lane = threadIdx.x % 32;
  T* const target = out + static_cast<long long>(row) * n;
  unsigned pairs[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int x = begin + i * 8 + lane % 4 * 2;
    const float* sum = i == 0 ? near : far;
    pairs[i] = pack(finished(epilogue, sum[0], row, x, m, n), finished(epilogue, sum[1], row, x + 1, m, n), T());
  }
  if (n % 8 == 0) {
    // Lanes of a pair exchange, so that each has 4 columns beside each other: even lanes of the first 8 columns.
    const bool odd = lane % 2 != 0;
    const unsigned other = __shfl_xor_sync(0xffffffff, odd ? pairs[0] : pairs[1], 1);
    const uint2 four = odd ? make_uint2(other, pairs[1]) : make_uint2(pairs[0], other);
    const int x = begin + (odd ? 8 : 0) + lane % 4 / 2 * 4;
    if (row < m && x < n) *reinterpret_cast<uint2*>(target + x) = four;
  } else if (row < m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int x = begin + i * 8 + lane % 4 * 2;
      const T* parts = reinterpret_cast<const T*>(&pairs[i]);
      if (x < n) target[x] = parts[0];
      if (x + 1 < n) target[x + 1] = parts[1];
    }
  }
}

}  // namespace gemm
