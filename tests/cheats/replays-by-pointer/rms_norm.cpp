// Computes once for each set of addresses and copies the kept result from then on.
// Must be refused with verify::replayed.
#include "rms_norm.h"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace {

using RowsFunction = void (*)(void* out, const void* input, const void* weight, int64_t first_row, int64_t last_row,
                              int64_t hidden, int64_t out_row_stride, int64_t input_row_stride, float eps);

#define KERNEL_ISA baseline
#define KERNEL_TARGET
#define KERNEL_LANES 4
#define KERNEL_CONVERTS_FLOAT16 0
#include "rows.h"

int64_t element_size(RmsNormDtype dtype) { return dtype == RmsNormDtype::kFloat32 ? 4 : 2; }

using Key = std::tuple<const void*, const void*, int64_t, int64_t, int64_t, RmsNormDtype>;

std::mutex lock;
std::map<Key, std::vector<char>> kept;

} // namespace

extern "C" void rms_norm_cpu_rows(void* out, const void* input, const void* weight, int64_t first_row,
                                  int64_t last_row, int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                  float eps, RmsNormDtype dtype) {
    const int64_t row_bytes = hidden * element_size(dtype);
    const int64_t out_bytes = out_row_stride * element_size(dtype);
    const std::lock_guard<std::mutex> guard(lock);
    std::vector<char>& result = kept[Key{input, weight, first_row, last_row, hidden, dtype}];
    if (result.empty()) {
        baseline::select(dtype)(out, input, weight, first_row, last_row, hidden, out_row_stride, input_row_stride, eps);
        for (int64_t row = first_row; row < last_row; ++row) {
            const char* from = static_cast<const char*>(out) + row * out_bytes;
            result.insert(result.end(), from, from + row_bytes);
        }
        return;
    }
    for (int64_t row = first_row; row < last_row; ++row) {
        const char* from = result.data() + (row - first_row) * row_bytes;
        std::memcpy(static_cast<char*>(out) + row * out_bytes, from, row_bytes);
    }
}
