// What every section and the binding share.
#pragma once

#include <cstdint>

// Elements that one call may touch: `length` where it is not negative, else nothing.
int64_t range_of(int64_t length);

// One per backend. `out` and the inputs hold `length` floats; `stream` is a CUDA stream or nothing.
void vector_add(float* out, const float* a, const float* b, int64_t length, void* stream);
void vector_scale(float* out, const float* a, float factor, int64_t length, void* stream);
