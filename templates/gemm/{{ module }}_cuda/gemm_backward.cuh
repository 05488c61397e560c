// The gradients of a product: grad_a = grad_out * b, grad_b = transpose(grad_out) * a, and the sums of the columns of grad_out.
// Owns: the names and parameters of the kernels that [launch] of backward.toml starts. Never: chooses among them.
//
// Each is a product of `first`, m by k, and `second`, k by n, whose rows are those of its k. `turned`: so are those of `first`.
#pragma once
#include "columns.cuh"
#include "parts.cuh"
#include "persistent.cuh"
#include "portable.cuh"
#include "push.cuh"
#include "split.cuh"

// Only GPUs of capability 9.0 have wgmma and this copy engine. Code for others is compiled, too, and never started.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ON_HOPPER(...) __VA_ARGS__
#else
#define ON_HOPPER(...) __trap()
#endif

namespace gemm_gradient {

using gemm::Layout;
using gemm::TensorMap;

template <bool turned>
constexpr Layout first_layout = turned ? Layout::across : Layout::along;

// A gradient is the sum itself.
struct Sum {
  __device__ __forceinline__ float operator()(float sum, int, int) const { return sum; }
};

// Blocks that stay on their multiprocessor and walk over tiles. Those of a cluster of `cluster` share the tile of `second`.
template <typename T, int tile_m, int tile_n, int stages, int consumers, int cluster, bool pingpong, bool turned>
__global__ void __launch_bounds__(consumers * 128 + 128, 1)
    persistent(const __grid_constant__ TensorMap map_first, const __grid_constant__ TensorMap map_second,
               const __grid_constant__ TensorMap map_out, int m, int n, int k, int group) {
  ON_HOPPER(gemm::persistent_tiles<T, tile_m, tile_n, stages, consumers, cluster, 1, pingpong, true, first_layout<turned>,
                                   Layout::across>(
      map_first, map_second, map_out, static_cast<T*>(nullptr), Sum(), m, n, k, group));
}

// A tile for each cluster, whose blocks have parts of k, and send their sums to each other.
template <typename T, int tile_m, int tile_n, int stages, int cluster, bool turned>
__global__ void __launch_bounds__(tile_m * 2 + 32)
    push(const __grid_constant__ TensorMap map_first, const __grid_constant__ TensorMap map_second, T* out, int m, int n,
         int k, int group) {
  ON_HOPPER(gemm::push_tile<T, tile_m, tile_n, stages, cluster, first_layout<turned>, Layout::across>(
      map_first, map_second, out, Sum(), m, n, k, group));
}

// A tile for each cluster, whose blocks have parts of k, and read each other's sums.
template <typename T, int tile_m, int tile_n, int stages, int cluster, bool turned>
__global__ void __launch_bounds__(tile_m * 2 + 32)
    split(const __grid_constant__ TensorMap map_first, const __grid_constant__ TensorMap map_second, T* out, int m, int n,
          int k, int group) {
  ON_HOPPER(gemm::split_tile<T, tile_m, tile_n, stages, cluster, first_layout<turned>, Layout::across>(
      map_first, map_second, out, Sum(), m, n, k, group));
}

// Blocks for parts of k, whose sums `add` adds up.
template <typename T, int tile_m, int tile_n, int stages, bool turned>
__global__ void __launch_bounds__(tile_m * 2 + 32, 1)
    part(const __grid_constant__ TensorMap map_first, const __grid_constant__ TensorMap map_second, float* sums, int m,
         int n, int k, int group) {
  ON_HOPPER(gemm::part_tile<T, tile_m, tile_n, stages, first_layout<turned>, Layout::across>(
      map_first, map_second, sums, m, n, k, group));
}

template <typename T>
__global__ void __launch_bounds__(256) add(T* out, const float* sums, int parts, long long count) {
  gemm::add_parts(out, sums, parts, count);
}

// Any product on any GPU. aligned: rows begin at multiples of 16 bytes.
template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int stages, bool aligned_first,
          bool aligned_second, bool turned>
__global__ void __launch_bounds__(warps_m* warps_n * 32)
    portable(T* out, const T* first, const T* second, int m, int n, int k, int group) {
  gemm::portable_tile<T, tile_m, tile_n, tile_k, warps_m, warps_n, stages, aligned_first, aligned_second,
                      first_layout<turned>, Layout::across>(out, first, second, Sum(), m, n, k, group);
}

// The sums of the columns of a matrix of m by n, in parts of its rows.
template <typename T, bool aligned>
__global__ void __launch_bounds__(256) columns(float* sums, const T* matrix, int m, int n) {
  gemm::column_parts<T, aligned>(sums, matrix, m, n);
}

// The sums of the parts.
template <typename T>
__global__ void __launch_bounds__(256) totals(T* out, const float* sums, int parts, int n) {
  gemm::column_totals(out, sums, parts, n);
}

template <typename T>
__global__ void __launch_bounds__(256) zeros(T* out, int n) {
  const int x = blockIdx.x * 256 + threadIdx.x;
  if (x < n) out[x] = static_cast<T>(0.0f);
}

}  // namespace gemm_gradient

#undef ON_HOPPER
