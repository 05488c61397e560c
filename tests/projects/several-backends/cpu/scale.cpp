#include "range.h"

// Adds `a` to itself through the other section first, so that the two have to be linked together.
void vector_scale(float* out, const float* a, float factor, int64_t length, void* stream) {
    vector_add(out, a, a, length, stream);
    for (int64_t i = 0; i < range_of(length); ++i) {
        out[i] *= factor / 2;
    }
}
