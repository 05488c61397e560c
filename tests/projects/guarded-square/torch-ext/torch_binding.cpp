#include "registration.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

void square_(at::Tensor& values);

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("square_(Tensor(a!) values) -> ()");
}

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
    ops.impl("square_", &square_);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
