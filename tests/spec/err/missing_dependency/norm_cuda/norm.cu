#include "norm.h"

#include <cuda_runtime.h>
#include <cutlass/cutlass.h>
#include <cutlass/numeric_types.h>
#ifdef BENCHMARK_ALONE
#include <cute/tensor.hpp>
#endif
