#include "negate.h"

void negate_floats(float* out, const float* input, int64_t length, void*) {
    for (int64_t i = 0; i < length; ++i) {
        out[i] = -input[i];
    }
}
