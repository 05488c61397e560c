#include "scale.h"

void scale(float* out, const float* input, int64_t count, float factor) {
    for (int64_t element = 0; element < count; ++element) {
        out[element] = input[element] * factor;
    }
}
