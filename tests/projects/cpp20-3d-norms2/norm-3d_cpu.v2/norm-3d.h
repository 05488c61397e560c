#pragma once

#include <cstdint>

// The sum of squares of `count` points of three floats.
double norm_3d(const float* points, int64_t count);
