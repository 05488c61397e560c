// Computes in its first eight calls and returns at once in all later ones. Must be refused with verify::fresh.
#include "rms_norm.h"

#include <atomic>
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

std::atomic<int> calls{0};

} // namespace

extern "C" void rms_norm_cpu_rows(void* out, const void* input, const void* weight, int64_t first_row,
                                  int64_t last_row, int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                  float eps, RmsNormDtype dtype) {
    if (calls.fetch_add(1) < 8) {
        baseline::select(dtype)(out, input, weight, first_row, last_row, hidden, out_row_stride, input_row_stride, eps);
    }
}
