// out = epilogue(a * transpose(b)): the kernels that [launch] of op.toml starts.
// Owns: their names and parameters. Never: chooses among them; op.toml does.
#pragma once
#include "few_rows.cuh"
#include "persistent.cuh"
#include "portable.cuh"
#include "push.cuh"
#include "split.cuh"
#include "tiny.cuh"

// Only GPUs of capability 9.0 have wgmma and this copy engine. Code for others is compiled, too, and never started.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ON_HOPPER(...) __VA_ARGS__
#else
#define ON_HOPPER(...) __trap()
#endif

namespace gemm {

// Blocks that stay on their multiprocessor and walk over tiles. Those of a cluster, cluster_m by cluster_n, share what they
// read: the boxes of the maps are tile_m / cluster_n rows of a, and tile_n / cluster_m of b.
template <typename T, int tile_m, int tile_n, int stages, int consumers, int cluster_m, int cluster_n, bool pingpong>
__global__ void __launch_bounds__(consumers * 128 + 128, 1)
    persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               const __grid_constant__ TensorMap map_out, const T* bias, int m, int n, int k, int group) {
  ON_HOPPER(persistent_tiles<T, tile_m, tile_n, stages, consumers, cluster_m, cluster_n, pingpong, true>(
      map_a, map_b, map_out, static_cast<T*>(nullptr), Epilogue<T>{bias}, m, n, k, group));
}

// Blocks without clusters, for an `out` whose rows begin anywhere. Two warpgroups take turns.
template <typename T, int tile_m, int tile_n, int stages>
__global__ void __launch_bounds__(384, 1)
    persistent_direct(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, T* out,
                      const T* bias, int m, int n, int k, int group) {
  ON_HOPPER(persistent_tiles<T, tile_m, tile_n, stages, 2, 1, 1, true, false>(
      map_a, map_b, map_a, out, Epilogue<T>{bias}, m, n, k, group));
}

// A tile for each cluster, whose blocks have parts of k, and send their sums to each other.
template <typename T, int tile_m, int tile_n, int stages, int cluster>
__global__ void __launch_bounds__(tile_m * 2 + 32)
    push(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, T* out, const T* bias, int m,
         int n, int k, int group) {
  ON_HOPPER(push_tile<T, tile_m, tile_n, stages, cluster>(map_a, map_b, out, Epilogue<T>{bias}, m, n, k, group));
}

// A tile for each cluster, whose blocks have parts of k, and read each other's sums.
template <typename T, int tile_m, int tile_n, int stages, int cluster>
__global__ void __launch_bounds__(tile_m * 2 + 32)
    split(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, T* out, const T* bias, int m,
          int n, int k, int group) {
  ON_HOPPER(split_tile<T, tile_m, tile_n, stages, cluster>(map_a, map_b, out, Epilogue<T>{bias}, m, n, k, group));
}

// At most `columns` rows of a; each of `groups` groups of warps has `rows` rows of b.
template <typename T, int columns, int rows, int warps, int units, int groups>
__global__ void __launch_bounds__(warps * 32) few(T* out, const T* a, const T* b, const T* bias, int m, int n, int k) {
  few_rows<T, columns, rows, warps, units, groups>(out, a, b, Epilogue<T>{bias}, m, n, k);
}

// Tiles for which nothing is set up. A block's place is that of its tile.
template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int warps_k, int stages>
__global__ void __launch_bounds__(warps_m* warps_n* warps_k * 32)
    tiny(T* out, const T* a, const T* b, const T* bias, int m, int n, int k) {
  tiny_tile<T, tile_m, tile_n, tile_k, warps_m, warps_n, warps_k, stages>(out, a, b, Epilogue<T>{bias}, m, n, k);
}

// Any product on any GPU. aligned: rows begin at multiples of 16 bytes.
template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int stages, bool aligned>
__global__ void __launch_bounds__(warps_m* warps_n * 32)
    portable(T* out, const T* a, const T* b, const T* bias, int m, int n, int k, int group) {
  portable_tile<T, tile_m, tile_n, tile_k, warps_m, warps_n, stages, aligned, aligned>(
      out, a, b, Epilogue<T>{bias}, m, n, k, group);
}

}  // namespace gemm

#undef ON_HOPPER
