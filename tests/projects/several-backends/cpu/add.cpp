#include "range.h"

void vector_add(float* out, const float* a, const float* b, int64_t length, void*) {
    for (int64_t i = 0; i < range_of(length); ++i) {
        out[i] = a[i] + b[i];
    }
}
