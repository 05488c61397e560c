#pragma once

#include <cstdint>

// out[i] = input[i] * factor, for `count` elements.
void scale(float* out, const float* input, int64_t count, float factor);
