#pragma once

#include <cstdint>

// Writes -input to out, `length` floats each.
void negate_floats(float* out, const float* input, int64_t length, void* stream);
