#include "negate.h"
#include "registration.h"

#if defined(CUDA_KERNEL)

#if !defined(TORCH_TARGET_VERSION)
#error "the stable ABI was asked for"
#endif

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

using torch::stable::Tensor;

Tensor negate(const Tensor& input) {
    STD_TORCH_CHECK(input.is_contiguous(), "mixed-abi: only contiguous tensors");
    Tensor out = torch::stable::new_empty(input, input.sizes());
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(input.get_device_index(), &stream));
    negate_floats(static_cast<float*>(out.mutable_data_ptr()), static_cast<const float*>(input.const_data_ptr()),
                  input.numel(), stream);
    return out;
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("negate(Tensor input) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
    ops.impl("negate", TORCH_BOX(&negate));
}

#else

#if defined(TORCH_TARGET_VERSION)
#error "the full interface was asked for"
#endif

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

at::Tensor negate(const at::Tensor& input) {
    TORCH_CHECK(input.is_contiguous(), "mixed-abi: only contiguous tensors");
    at::Tensor out = at::empty_like(input);
    negate_floats(out.mutable_data_ptr<float>(), input.const_data_ptr<float>(), input.numel(), nullptr);
    return out;
}

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("negate(Tensor input) -> Tensor");
}

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
    ops.impl("negate", &negate);
}

#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
