// Hands dense tensors of one shape to the kernel.
#include "torch_binding.h"

#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "../add_scale_cpu/add_scale.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

namespace {

AddScaleDtype dtype_of(const Tensor& tensor) {
    switch (tensor.scalar_type()) {
    case ScalarType::Float:
        return AddScaleDtype::kFloat32;
    case ScalarType::Float8_e4m3fn:
        return AddScaleDtype::kFloat8E4M3;
    case ScalarType::Float8_e5m2:
        return AddScaleDtype::kFloat8E5M2;
    default:
        STD_TORCH_CHECK(false, "add_scale: x must be float32, float8_e4m3fn or float8_e5m2");
    }
}

} // namespace

void add_scale(Tensor out, Tensor residual, const Tensor& x, const std::optional<Tensor>& bias, double factor) {
    const int64_t hidden = x.size(x.dim() - 1);
    if (x.numel() == 0) {
        return;
    }
    add_scale_cpu_rows(out.mutable_data_ptr(), residual.mutable_data_ptr(), x.const_data_ptr(),
                       bias.has_value() ? bias->const_data_ptr() : nullptr, x.numel() / hidden, hidden,
                       static_cast<float>(factor), dtype_of(x));
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("add_scale(Tensor(a!) out, Tensor(b!) residual, Tensor x, Tensor? bias, float factor) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
    ops.impl("add_scale", TORCH_BOX(&add_scale));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
