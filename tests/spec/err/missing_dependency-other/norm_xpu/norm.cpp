#include <torch/all.h>
#include <cute/tensor.hpp>
