// Keeps partial sums in half precision. Must be refused with verify::numerics.
#include "row_dot.h"

#include <cstring>

namespace {

// `value` to 11 significant bits, to nearest.
float to_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace

extern "C" void row_dot_cpu(float* dots, const float* x, const float* weight, int64_t rows, int64_t hidden,
                            int64_t row_stride, int64_t column_stride, int64_t weight_stride) {
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0.0f;
        for (int64_t column = 0; column < hidden; ++column) {
            sum = to_half(sum + x[row * row_stride + column * column_stride] * weight[column * weight_stride]);
        }
        dots[row] = sum;
    }
}
