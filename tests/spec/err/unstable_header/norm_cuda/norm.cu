/* #include <torch/all.h> */
#include <ATen/cuda/Exceptions.h>
