// Takes the input to be dense. Must be refused with verify::numerics.
#include "row_dot.h"

extern "C" void row_dot_cpu(float* dots, const float* x, const float* weight, int64_t rows, int64_t hidden,
                            int64_t, int64_t, int64_t weight_stride) {
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0.0f;
        for (int64_t column = 0; column < hidden; ++column) {
            sum += x[row * hidden + column] * weight[column * weight_stride];
        }
        dots[row] = sum;
    }
}
