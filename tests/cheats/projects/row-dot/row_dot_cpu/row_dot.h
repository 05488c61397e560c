// The CPU kernel of row_dot: plain pointers, sizes and strides in elements.
#pragma once

#include <cstdint>

// dots[row] = sum over columns of x[row, column] * weight[column], accumulated in float32.
extern "C" void row_dot_cpu(float* dots, const float* x, const float* weight, int64_t rows, int64_t hidden,
                            int64_t row_stride, int64_t column_stride, int64_t weight_stride);
