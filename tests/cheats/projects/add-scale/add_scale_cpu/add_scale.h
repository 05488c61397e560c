// The CPU kernel of add_scale: plain pointers and sizes.
#pragma once

#include <cstdint>

// Element type of every tensor.
enum class AddScaleDtype : int { kFloat32 = 0, kFloat8E4M3 = 1, kFloat8E5M2 = 2 };

// residual += x + bias, and out = that sum times factor, for dense tensors [rows, hidden] and a bias [hidden] that may be
// null. The arithmetic is float32; each result is rounded once.
extern "C" void add_scale_cpu_rows(void* out, void* residual, const void* x, const void* bias, int64_t rows,
                                   int64_t hidden, float factor, AddScaleDtype dtype);
