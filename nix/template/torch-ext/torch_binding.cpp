// The operator that torch sees: argument checks, the output's allocation, the hand-over to the kernel.
#include "../scale_cpu/scale.h"

#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor scaled(const Tensor& input, double factor) {
    STD_TORCH_CHECK(input.is_cpu(), "scale: input must be on the CPU");
    STD_TORCH_CHECK(input.scalar_type() == torch::headeronly::ScalarType::Float, "scale: input must be float32");
    const Tensor values = torch::stable::contiguous(input);
    Tensor out = torch::stable::empty_like(values);
    scale(static_cast<float*>(out.data_ptr()), static_cast<const float*>(values.data_ptr()), values.numel(),
          static_cast<float>(factor));
    return out;
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("scale(Tensor input, float factor) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
    ops.impl("scale", TORCH_BOX(&scaled));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
