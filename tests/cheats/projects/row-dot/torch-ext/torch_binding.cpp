// Hands float32 tensors with their strides to the kernel.
#include "torch_binding.h"

#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "../row_dot_cpu/row_dot.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Tensor row_dot(const Tensor& x, const Tensor& weight) {
    STD_TORCH_CHECK(x.scalar_type() == ScalarType::Float, "row_dot: x must be float32");
    Tensor dots = torch::stable::new_empty(x, {x.size(0)});
    row_dot_cpu(static_cast<float*>(dots.mutable_data_ptr()), static_cast<const float*>(x.const_data_ptr()),
                static_cast<const float*>(weight.const_data_ptr()), x.size(0), x.size(1), x.stride(0), x.stride(1),
                weight.stride(0));
    return dots;
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("row_dot(Tensor x, Tensor weight) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
    ops.impl("row_dot", TORCH_BOX(&row_dot));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
