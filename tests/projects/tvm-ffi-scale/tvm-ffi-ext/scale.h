#pragma once

#include <cstdint>

// Writes input * factor + bias to out, `length` floats each.
void scale_floats(float* out, const float* input, float factor, float bias, int64_t length, void* stream);
