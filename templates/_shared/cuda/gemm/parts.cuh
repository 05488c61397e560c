// Owns: out = a * b where there are very few tiles and k is very long: blocks compute parts of k, as many as the GPU has room
// for, and leave their sums in memory, which another kernel adds up in the order of the parts. So the result is the same in
// every run.
// Never: an epilogue.
#pragma once
#include "ring.cuh"

namespace gemm {

template <typename T, int tile_m, int tile_n, int stages, Layout layout_a, Layout layout_b>
struct PartPlan {
  using Stages = Ring<T, tile_m, tile_n, stages, 1, 1, layout_a, layout_b>;
  // Warpgroups that multiply; one more warp copies.
  static constexpr int consumers = tile_m / 64, shared = 1024 + Stages::bytes + Stages::barrier_bytes;
  static_assert(tile_m % 64 == 0, "a warpgroup has 64 rows");
  static_assert(shared <= 232448, "more than the shared memory of a block");
};

// `sums` [gridDim.y, m, n]: block (i, part) has tile i, of the steps from all * part / gridDim.y on. n is even.
template <typename T, int tile_m, int tile_n, int stages, Layout layout_a, Layout layout_b>
__device__ __forceinline__ void
part_tile(const TensorMap& map_a, const TensorMap& map_b, float* sums, int m, int n, int k, int group) {
  using P = PartPlan<T, tile_m, tile_n, stages, layout_a, layout_b>;
  extern __shared__ unsigned char memory[];
  const unsigned base = (shared_address(memory) + 1023) / 1024 * 1024;
  typename P::Stages ring(base, base + P::Stages::bytes);
  if (threadIdx.x == 0) {
    map_prefetch(map_a);
    map_prefetch(map_b);
    ring.init(4 * P::consumers);
  }
  __syncthreads();

  const Walk walk{(m + tile_m - 1) / tile_m, (n + tile_n - 1) / tile_n, group};
  int row, column;
  walk.at(blockIdx.x, row, column);
  row *= tile_m;
  column *= tile_n;
  // The steps of this block, maybe none.
  const int all = (k + stage_k - 1) / stage_k, parts = gridDim.y, part = blockIdx.y;
  const int from = static_cast<int>(static_cast<long long>(all) * part / parts);
  const int steps = static_cast<int>(static_cast<long long>(all) * (part + 1) / parts) - from;

  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  if (warpgroup == P::consumers) {
    if (threadIdx.x == P::consumers * 128) {
      for (int step = 0; step < steps; ++step) ring.load(map_a, map_b, row, column, (from + step) * stage_k);
    }
    return;
  }

  float own[1][tile_n / 2];
  if (steps == 0) {
#pragma unroll
    for (int j = 0; j < tile_n / 2; ++j) own[0][j] = 0.0f;
  } else {
    ring.multiply(own, warpgroup * 64, steps);
    ring.finish(own);
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int y = row + warp * 16 + half * 8 + lane / 4;
    if (y >= m) continue;
    float* const target = sums + (static_cast<long long>(part) * m + y) * n;
#pragma unroll
    for (int j = 0; j < tile_n / 8; ++j) {
      const int x = column + j * 8 + lane % 4 * 2;
      const float* sum = own[0] + j * 4 + half * 2;
      if (x < n) *reinterpret_cast<float2*>(target + x) = make_float2(sum[0], sum[1]);
    }
  }
}

// The sums of the parts, rounded: `count` results, a multiple of 4. A thread has four of them.
template <typename T>
__device__ __forceinline__ void add_parts(T* out, const float* sums, int parts, long long count) {
  const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (at >= count) return;
  float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 8
  for (int part = 0; part < parts; ++part) {
    const float4 sum = *reinterpret_cast<const float4*>(sums + part * count + at);
    total = make_float4(total.x + sum.x, total.y + sum.y, total.z + sum.z, total.w + sum.w);
  }
  *reinterpret_cast<uint2*>(out + at) = make_uint2(pack(total.x, total.y, T()), pack(total.z, total.w, T()));
}

}  // namespace gemm
