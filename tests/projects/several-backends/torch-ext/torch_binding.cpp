#include "torch_binding.h"

#include "range.h"
#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

using torch::stable::Tensor;

namespace {

void* stream_of(const Tensor& tensor) {
    void* stream = nullptr;
#if defined(CUDA_KERNEL)
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
#else
    (void)tensor;
#endif
    return stream;
}

void check(const Tensor& tensor) {
    STD_TORCH_CHECK(tensor.scalar_type() == torch::headeronly::ScalarType::Float, "vector-ops: only float32");
    STD_TORCH_CHECK(tensor.is_contiguous(), "vector-ops: only contiguous tensors");
}

float* floats(const Tensor& tensor) {
    return static_cast<float*>(tensor.mutable_data_ptr());
}

} // namespace

Tensor add(const Tensor& a, const Tensor& b) {
    check(a);
    check(b);
    STD_TORCH_CHECK(a.numel() == b.numel(), "vector-ops: two lengths");
    Tensor out = torch::stable::new_empty(a, a.sizes());
    vector_add(floats(out), floats(a), floats(b), a.numel(), stream_of(a));
    return out;
}

Tensor scale(const Tensor& a, double factor) {
    check(a);
    Tensor out = torch::stable::new_empty(a, a.sizes());
    vector_scale(floats(out), floats(a), static_cast<float>(factor), a.numel(), stream_of(a));
    return out;
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("add(Tensor a, Tensor b) -> Tensor");
    ops.def("scale(Tensor a, float factor) -> Tensor");
}

#if defined(CPU_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
#elif defined(CUDA_KERNEL) || defined(ROCM_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
#elif defined(XPU_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, XPU, ops) {
#else
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, MPS, ops) {
#endif
    ops.impl("add", TORCH_BOX(&add));
    ops.impl("scale", TORCH_BOX(&scale));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
