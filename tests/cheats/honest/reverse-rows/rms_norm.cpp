// Computes the rows of its range from the last to the first. Must pass.
#include "rms_norm.h"

#include <cmath>
#include <cstring>

namespace {

using RowsFunction = void (*)(void* out, const void* input, const void* weight, int64_t first_row, int64_t last_row,
                              int64_t hidden, int64_t out_row_stride, int64_t input_row_stride, float eps);

#define KERNEL_ISA baseline
#define KERNEL_TARGET
#define KERNEL_LANES 4
#define KERNEL_CONVERTS_FLOAT16 0
#include "rows.h"

} // namespace

extern "C" void rms_norm_cpu_rows(void* out, const void* input, const void* weight, int64_t first_row,
                                  int64_t last_row, int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                  float eps, RmsNormDtype dtype) {
    for (int64_t row = last_row; row-- > first_row;) {
        baseline::select(dtype)(out, input, weight, row, row + 1, hidden, out_row_stride, input_row_stride, eps);
    }
}
