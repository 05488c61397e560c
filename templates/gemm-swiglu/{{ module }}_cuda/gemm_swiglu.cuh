// out = gate(a * transpose(gate), a * transpose(up)): the kernels that [launch] of op.toml starts.
// Owns: their names and parameters. Never: chooses among them; op.toml does.
#pragma once
#include "pair.cuh"
#include "pair_few.cuh"
#include "pair_portable.cuh"
#include "pair_push.cuh"

// Only GPUs of capability 9.0 have wgmma and this copy engine. Code for others is compiled, too, and never started.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ON_HOPPER(...) __VA_ARGS__
#else
#define ON_HOPPER(...) __trap()
#endif

namespace gemm {

// Blocks that stay on their multiprocessor and walk over tiles of tile_m by `half` results. Those of a cluster, cluster_m by
// cluster_n, share what they read: the boxes of the maps are tile_m / cluster_n rows of a, and `half` of each matrix of weights.
template <typename T, int tile_m, int half, int stages, int consumers, int cluster_m, int cluster_n, bool pingpong>
__global__ void __launch_bounds__(consumers * 128 + 128, 1)
    persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_gate,
               const __grid_constant__ TensorMap map_up, const __grid_constant__ TensorMap map_out, int m, int n, int k,
               int group) {
  ON_HOPPER(pair_tiles<T, tile_m, half, stages, consumers, cluster_m, cluster_n, pingpong, true>(
      map_a, map_gate, map_up, map_out, static_cast<T*>(nullptr), Gate(), Epilogue<T>(), m, n, k, group));
}

// Blocks without clusters, for an `out` whose rows begin anywhere. Two warpgroups take turns.
template <typename T, int tile_m, int half, int stages>
__global__ void __launch_bounds__(384, 1)
    persistent_direct(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_gate,
                      const __grid_constant__ TensorMap map_up, T* out, int m, int n, int k, int group) {
  ON_HOPPER(pair_tiles<T, tile_m, half, stages, 2, 1, 1, true, false>(
      map_a, map_gate, map_up, map_a, out, Gate(), Epilogue<T>(), m, n, k, group));
}

// A tile for each cluster, whose blocks have parts of k, and send their sums to each other.
template <typename T, int tile_m, int half, int stages, int cluster>
__global__ void __launch_bounds__(tile_m * 2 + 32)
    push(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_gate,
         const __grid_constant__ TensorMap map_up, T* out, int m, int n, int k, int group) {
  ON_HOPPER(push_pair<T, tile_m, half, stages, cluster>(map_a, map_gate, map_up, out, Gate(), Epilogue<T>(), m, n, k,
                                                        group));
}

// At most `columns` rows of a; each of `groups` groups of warps has 8 columns of the result.
template <typename T, int columns, int warps, int units, int groups>
__global__ void __launch_bounds__(warps * 32) few(T* out, const T* a, const T* gate, const T* up, int m, int n, int k) {
  few_pairs<T, columns, warps, units, groups>(out, a, gate, up, Gate(), Epilogue<T>(), m, n, k);
}

// Any product on any GPU. aligned: rows begin at multiples of 16 bytes.
template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int stages, bool aligned>
__global__ void __launch_bounds__(warps_m* warps_n * 32)
    portable(T* out, const T* a, const T* gate, const T* up, int m, int n, int k, int group) {
  portable_pair<T, tile_m, tile_n, tile_k, warps_m, warps_n, stages, aligned>(
      out, a, gate, up, Gate(), Epilogue<T>(), m, n, k, group);
}

}  // namespace gemm

#undef ON_HOPPER
