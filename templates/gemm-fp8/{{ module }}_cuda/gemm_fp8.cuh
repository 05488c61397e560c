// out = epilogue(scaled a * transpose(b)) of 8-bit floats: the kernels that [launch] of op.toml starts.
// Owns: their names and parameters. Never: chooses among them; op.toml does.
#pragma once
#include "fp8.cuh"
#include "fp8_few.cuh"
#include "fp8_portable.cuh"
#include "fp8_push.cuh"

// Only GPUs of capability 9.0 have wgmma and this copy engine. Code for others is compiled, too, and never started.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ON_HOPPER(...) __VA_ARGS__
#else
#define ON_HOPPER(...) __trap()
#endif

namespace gemm {

// Blocks that stay on their multiprocessor and walk over tiles. Those of a cluster, cluster_m by cluster_n, share what they
// read: the boxes of the maps are tile_m / cluster_n rows of a, and tile_n / cluster_m of b.
template <typename T, int tile_m, int tile_n, int stages, int cluster_m, int cluster_n, int every>
__global__ void __launch_bounds__(tile_m * 2 + 128, 1)
    persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               const __grid_constant__ TensorMap map_out, const float* scale_a, const float* scale_b, const T* bias,
               int m, int n, int k, int group) {
  ON_HOPPER(fp8_tiles<T, tile_m, tile_n, stages, cluster_m, cluster_n, every, true>(
      map_a, map_b, map_out, static_cast<T*>(nullptr), Scales{scale_a, scale_b}, Epilogue<T>{bias}, m, n, k, group));
}

// Blocks without clusters, for an `out` whose rows begin anywhere.
template <typename T, int tile_m, int tile_n, int stages, int every>
__global__ void __launch_bounds__(tile_m * 2 + 128, 1)
    persistent_direct(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, T* out,
                      const float* scale_a, const float* scale_b, const T* bias, int m, int n, int k, int group) {
  ON_HOPPER(fp8_tiles<T, tile_m, tile_n, stages, 1, 1, every, false>(
      map_a, map_b, map_a, out, Scales{scale_a, scale_b}, Epilogue<T>{bias}, m, n, k, group));
}

// A tile for each cluster, whose blocks have parts of k, and send their sums to each other.
template <typename T, int tile_m, int tile_n, int stages, int cluster, int every>
__global__ void __launch_bounds__(tile_m * 2 + 32)
    push(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, T* out, const float* scale_a,
         const float* scale_b, const T* bias, int m, int n, int k, int group) {
  ON_HOPPER(fp8_push<T, tile_m, tile_n, stages, cluster, every>(map_a, map_b, out, Scales{scale_a, scale_b},
                                                                Epilogue<T>{bias}, m, n, k, group));
}

// At most `columns` rows of a; each of `groups` groups of warps has 16 rows of b.
template <typename T, int columns, int warps, int units, int groups>
__global__ void __launch_bounds__(warps * 32)
    few(T* out, const Fp8* a, const Fp8* b, const float* scale_a, const float* scale_b, const T* bias, int m, int n,
        int k) {
  fp8_few<T, columns, warps, units, groups>(out, a, b, Scales{scale_a, scale_b}, Epilogue<T>{bias}, m, n, k);
}

// Any product on any GPU. aligned: rows begin at multiples of 16 bytes.
template <typename T, int tile_m, int tile_n, int warps_m, int warps_n, bool aligned>
__global__ void __launch_bounds__(warps_m* warps_n * 32)
    portable(T* out, const Fp8* a, const Fp8* b, const float* scale_a, const float* scale_b, const T* bias, int m, int n,
             int k, int group) {
  fp8_portable<T, tile_m, tile_n, warps_m, warps_n, aligned>(out, a, b, Scales{scale_a, scale_b}, Epilogue<T>{bias}, m,
                                                             n, k, group);
}

}  // namespace gemm

#undef ON_HOPPER
