// The launchers of the two GEMMs: plain pointers and sizes, no type of torch or CUTLASS.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

// out[m, n] = a[m, k] * b[n, k]^T in bfloat16 with float32 sums; every matrix is contiguous and 16-byte aligned, and
// `k` and `n` are multiples of 8. `workspace` has at least as many bytes as the function beside it says.
// Returns 0, or a status of CUTLASS (cutlass/cutlass.h).
int gemm_sm80(void* out, const void* a, const void* b, int m, int n, int k, cudaStream_t stream);

int64_t gemm_sm90_workspace(int m, int n, int k);
int gemm_sm90(void* out, const void* a, const void* b, int m, int n, int k, void* workspace, cudaStream_t stream);
