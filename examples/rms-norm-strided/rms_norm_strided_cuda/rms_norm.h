// The CUDA launcher of rms_norm: plain pointers and sizes, no torch type, so it serves any host.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

// Element type of input, weight and output; all three are the same.
enum class RmsNormDtype : int { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

// Enqueues out[r, :] = input[r, :] / sqrt(mean(input[r, :]^2) + eps) * weight on `stream`, for r in [0, rows).
//
// All pointers are device pointers, aligned to their element. The last axis of every tensor is contiguous, of length
// `hidden` >= 1; the row strides count elements. The arithmetic is float32, with one rounding at the end. `out` may be
// `input` itself (same pointer and stride), but may not overlap it otherwise. No rows is no work.
// Returns the launch's error; an error while the kernel runs shows up at a later call, as with every launch.
extern "C" cudaError_t rms_norm_cuda_launch(void* out, const void* input, const void* weight, int64_t rows,
                                            int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                            float eps, RmsNormDtype dtype, cudaStream_t stream);
