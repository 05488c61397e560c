// Owns: how the blocks of a cluster, each of which has the sums of a part of k, add them up: as push.cuh does.
// Never: where the sums come from, and what becomes of them.
#pragma once
#include "push.cuh"

namespace gemm {

// Of the sums that a block has of its part of k: sends those of other blocks' rows, and adds to its own what the others send,
// in the order of the parts. Whether the rows of this warp are the block's own; the other warps are done.
template <class P, int cluster, int count>
__device__ __forceinline__ bool add_up(float (&sums)[count], unsigned base, int part) {
  const unsigned arrived = base + P::arrived_at;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, owner = warp / P::own;
  const unsigned place = base + P::sums_at + warp % P::own * P::warp_bytes + lane * 16;
  if (owner != part) {
    // The owner has room for all others, in the order of their ranks.
    const int before = part - (part > owner ? 1 : 0);
    const unsigned remote = cluster_address(place + before * P::own * P::warp_bytes, owner);
    const unsigned remote_barrier = cluster_address(arrived, owner);
#pragma unroll
    for (int j = 0; j < count / 4; ++j) {
      const float* four = sums + j * 4;
      cluster_send(remote + j * 512, remote_barrier, four[0], four[1], four[2], four[3]);
    }
    return false;
  }

  barrier_wait(arrived, 0);
#pragma unroll
  for (int j = 0; j < count / 4; ++j) {
    float* four = sums + j * 4;
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < cluster; ++i) {
      float4 value = make_float4(four[0], four[1], four[2], four[3]);
      if (i != part) value = shared_read(place + j * 512 + (i - (i > part ? 1 : 0)) * P::own * P::warp_bytes);
      total = i == 0 ? value : make_float4(total.x + value.x, total.y + value.y, total.z + value.z, total.w + value.w);
    }
    four[0] = total.x;
    four[1] = total.y;
    four[2] = total.z;
    four[3] = total.w;
  }
  return true;
}

}  // namespace gemm
