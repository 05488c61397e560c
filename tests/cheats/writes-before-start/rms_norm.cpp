// Computes every row, and clobbers the element in front of the first. Must be refused with verify::guard.
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

int64_t element_size(RmsNormDtype dtype) { return dtype == RmsNormDtype::kFloat32 ? 4 : 2; }

} // namespace

extern "C" void rms_norm_cpu_rows(void* out, const void* input, const void* weight, int64_t first_row,
                                  int64_t last_row, int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                  float eps, RmsNormDtype dtype) {
    baseline::select(dtype)(out, input, weight, first_row, last_row, hidden, out_row_stride, input_row_stride, eps);
    if (first_row == 0) {
        std::memset(static_cast<char*>(out) - element_size(dtype), 0x3c, element_size(dtype));
    }
}
