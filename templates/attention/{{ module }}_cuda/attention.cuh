// Softmax attention: the kernels that [launch] of op.toml starts.
// Owns: their names and parameters. Never: chooses among them; op.toml does.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "warpgroups.cuh"
#include "warps.cuh"

// Only GPUs of capability 9.0 have wgmma and this copy engine. Code for others is compiled, too, and never started.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ON_HOPPER(...) __VA_ARGS__
#else
#define ON_HOPPER(...) __trap()
#endif

namespace attention {

// Blocks that stay on their multiprocessor and walk over tiles of 64 rows for each of `consumers` warpgroups. The boxes of the
// maps are 64 elements of 64 rows of q, and of `keys` rows of k and v.
template <typename T, int width, int keys, int consumers, int stages, bool biased>
__global__ void __launch_bounds__(consumers * 128 + 128, 1)
    warpgroups(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k,
               const __grid_constant__ TensorMap map_v, T* out, float* lse, const T* q, const T* k, const T* v,
               const T* bias, int batch, int heads, int kv_heads, int rows, int columns, int dim, bool causal, int window,
               float scale, int group) {
  ON_HOPPER(warpgroup_tiles<T, width, keys, consumers, stages, biased>(
      map_q, map_k, map_v, Tensors<T>{q, k, v, bias, out, lse}, Mask{causal, window, rows, columns},
      Shape{batch, heads, kv_heads, rows, columns, dim, group}, scaling(scale, dim)));
}

// A tile of 16 rows for each warp, on any GPU. With a bound of one block the compiler takes the registers that it needs; it would
// spill some so that three blocks fit.
template <typename T, int width, int keys, int warps, bool biased>
__global__ void __launch_bounds__(warps * 32, 1)
    portable(T* out, float* lse, const T* q, const T* k, const T* v, const T* bias, int batch, int heads, int kv_heads,
             int rows, int columns, int dim, bool causal, int window, float scale, int group) {
  warp_tile<T, width, keys, warps, biased>(Tensors<T>{q, k, v, bias, out, lse}, Mask{causal, window, rows, columns},
                                         Shape{batch, heads, kv_heads, rows, columns, dim, group}, scaling(scale, dim));
}

}  // namespace attention

#undef ON_HOPPER
