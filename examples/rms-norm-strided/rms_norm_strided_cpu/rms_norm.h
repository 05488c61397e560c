// The CPU kernel of rms_norm: plain pointers and sizes, no torch type, so it serves any host.
#pragma once

#include <cstdint>

// Element type of input, weight and output; all three are the same.
enum class RmsNormDtype : int { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

// Computes out[r, :] = input[r, :] / sqrt(mean(input[r, :]^2) + eps) * weight for r in [first_row, last_row).
//
// The last axis of every tensor is contiguous, of length `hidden` >= 1; the row strides count elements. The arithmetic
// is float32, with one rounding at the end. `out` may be `input` itself (same pointer and stride), but may not overlap
// it otherwise. Ranges of rows are independent: the caller may run them in parallel.
extern "C" void rms_norm_cpu_rows(void* out, const void* input, const void* weight, int64_t first_row,
                                  int64_t last_row, int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                  float eps, RmsNormDtype dtype);
