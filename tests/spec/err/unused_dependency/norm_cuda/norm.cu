#include <cuda_runtime.h>
#include <torch/all.h>
// #include <cutlass/cutlass.h>
