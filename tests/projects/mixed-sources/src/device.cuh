#pragma once

__device__ __constant__ const int kDeviceSquares[] = {
#include <data/squares.inc>
};
