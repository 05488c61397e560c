// The operator cutlass_gemm, on torch's stable ABI: checks, the output, the choice of the kernel by the GPU.
#include <registration.h>

#include <climits>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "../gemm_cuda/gemm.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

static bool is_hopper(int32_t device) {
    int major = 0;
    STD_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major == 9;
}

Tensor cutlass_gemm(const Tensor& a, const Tensor& b) {
    STD_TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1), "cutlass_gemm: a[m, k] and b[n, k]");
    STD_TORCH_CHECK(a.scalar_type() == ScalarType::BFloat16 && b.scalar_type() == ScalarType::BFloat16,
                    "cutlass_gemm: a and b must be bfloat16");
    STD_TORCH_CHECK(a.is_cuda() && a.get_device_index() == b.get_device_index(),
                    "cutlass_gemm: a and b must be on one GPU");
    const int64_t m = a.size(0), n = b.size(0), k = a.size(1);
    STD_TORCH_CHECK(n % 8 == 0 && k % 8 == 0, "cutlass_gemm: n and k must be multiples of 8");
    STD_TORCH_CHECK(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX, "cutlass_gemm: an axis is too long");
    const Tensor left = torch::stable::contiguous(a), right = torch::stable::contiguous(b);
    Tensor out = torch::stable::new_empty(a, {m, n});
    if (m == 0 || n == 0) {
        return out;
    }
    if (k == 0) {
        return torch::stable::zero_(out);
    }
    const int32_t device = a.get_device_index();
    const torch::stable::accelerator::DeviceGuard guard(device);
    void* raw = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &raw));
    const auto stream = static_cast<cudaStream_t>(raw);
    void* to = out.mutable_data_ptr();
    const void* from[] = {left.const_data_ptr(), right.const_data_ptr()};
    int status = 0;
    if (is_hopper(device)) {
        const int64_t bytes = gemm_sm90_workspace(m, n, k);
        const Tensor workspace = torch::stable::new_empty(a, {bytes + 1}, ScalarType::Byte);
        status = gemm_sm90(to, from[0], from[1], m, n, k, workspace.mutable_data_ptr(), stream);
    } else {
        status = gemm_sm80(to, from[0], from[1], m, n, k, stream);
    }
    STD_TORCH_CHECK(status == 0, "cutlass_gemm: CUTLASS refuses with status ", status);
    return out;
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("cutlass_gemm(Tensor a, Tensor b) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
    ops.impl("cutlass_gemm", TORCH_BOX(&cutlass_gemm));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
