#include "range.h"

#import <Metal/Metal.h>

// The shared memory of an Apple processor is the host's, so the host may compute as well.
void vector_add(float* out, const float* a, const float* b, int64_t length, void*) {
    for (int64_t i = 0; i < range_of(length); ++i) {
        out[i] = a[i] + b[i];
    }
}

void vector_scale(float* out, const float* a, float factor, int64_t length, void*) {
    for (int64_t i = 0; i < range_of(length); ++i) {
        out[i] = a[i] * factor;
    }
}
