#include "../norm-3d_cpu.v2/norm-3d.h"

#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

double norm(const torch::stable::Tensor& points) {
    STD_TORCH_CHECK(points.dim() == 2 && points.size(1) == 3 && points.is_contiguous(), "norm: points are [n, 3]");
    return norm_3d(static_cast<const float*>(points.const_data_ptr()), points.size(0));
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("norm(Tensor points) -> float");
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
#else
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
#endif
    ops.impl("norm", TORCH_BOX(&norm));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
