// The torch operators of rms-norm-strided. Owns: argument checks, the output's allocation, the hand-over to the kernel on
// the caller's device and stream. Never: computes, synchronises, keeps state. Only torch's stable ABI is used, so one
// binary serves torch 2.10 and later. The build defines CUDA_KERNEL or CPU_KERNEL.

#if defined(CUDA_KERNEL) && !defined(USE_CUDA)
// torch declares the CUDA part of its stable interface only under this name.
#define USE_CUDA 1
#endif

#include "torch_binding.h"

#include "registration.h"

#include <algorithm>
#include <string>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>

#if defined(CUDA_KERNEL)
#include "../rms_norm_strided_cuda/rms_norm.h"
#elif defined(CPU_KERNEL)
#include "../rms_norm_strided_cpu/rms_norm.h"
#else
#error "define CUDA_KERNEL or CPU_KERNEL"
#endif

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

namespace {

std::string shape_of(const Tensor& tensor) {
    std::string text = "[";
    for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
        text += (axis == 0 ? "" : ", ") + std::to_string(tensor.size(axis));
    }
    return text + "]";
}

bool same_shape(const Tensor& a, const Tensor& b) {
    if (a.dim() != b.dim()) {
        return false;
    }
    for (int64_t axis = 0; axis < a.dim(); ++axis) {
        if (a.size(axis) != b.size(axis)) {
            return false;
        }
    }
    return true;
}

bool same_device(const Tensor& a, const Tensor& b) {
    return a.is_cuda() == b.is_cuda() && a.is_cpu() == b.is_cpu() && a.get_device_index() == b.get_device_index();
}

RmsNormDtype dtype_of(const Tensor& input) {
    switch (input.scalar_type()) {
    case ScalarType::Float:
        return RmsNormDtype::kFloat32;
    case ScalarType::Half:
        return RmsNormDtype::kFloat16;
    case ScalarType::BFloat16:
        return RmsNormDtype::kBFloat16;
    default:
        STD_TORCH_CHECK(false, "rms_norm: input must be float32, float16 or bfloat16");
    }
}

bool last_axis_is_contiguous(const Tensor& tensor) {
    const int64_t last = tensor.dim() - 1;
    return tensor.size(last) <= 1 || tensor.stride(last) == 1;
}

void check_inputs(const Tensor& input, const Tensor& weight) {
    dtype_of(input);
    STD_TORCH_CHECK(input.dim() >= 1, "rms_norm: input must have at least one axis");
    const int64_t hidden = input.size(input.dim() - 1);
    STD_TORCH_CHECK(weight.dim() == 1 && weight.size(0) == hidden, "rms_norm: weight must have the shape [", hidden,
                    "] of input's last axis, but has ", shape_of(weight));
    STD_TORCH_CHECK(weight.scalar_type() == input.scalar_type(), "rms_norm: weight must have the dtype of input");
    STD_TORCH_CHECK(same_device(weight, input), "rms_norm: weight must be on the device of input");
    STD_TORCH_CHECK(last_axis_is_contiguous(weight), "rms_norm: weight must be contiguous");
    STD_TORCH_CHECK(last_axis_is_contiguous(input),
                    "rms_norm: the last axis of input must be contiguous; call input.contiguous()");
}

void check_output(const Tensor& out, const Tensor& input) {
    STD_TORCH_CHECK(same_shape(out, input), "rms_norm: out must have the shape ", shape_of(input), " of input, but has ",
                    shape_of(out));
    STD_TORCH_CHECK(out.scalar_type() == input.scalar_type(), "rms_norm: out must have the dtype of input");
    STD_TORCH_CHECK(same_device(out, input), "rms_norm: out must be on the device of input");
    STD_TORCH_CHECK(last_axis_is_contiguous(out), "rms_norm: the last axis of out must be contiguous");
}

// Distance between neighbouring rows when all leading axes are walked as one, in elements; -1 where there is no such
// single distance.
int64_t row_stride(const Tensor& tensor) {
    int64_t stride = -1;
    int64_t expected = 0;
    for (int64_t axis = tensor.dim() - 2; axis >= 0; --axis) {
        if (tensor.size(axis) == 1) {
            continue;
        }
        if (stride < 0) {
            stride = tensor.stride(axis);
        } else if (tensor.stride(axis) != expected) {
            return -1;
        }
        expected = tensor.stride(axis) * tensor.size(axis);
    }
    // One row only: any distance will do, and the row's length keeps the alignment of a contiguous tensor.
    return stride < 0 ? tensor.size(tensor.dim() - 1) : stride;
}

void launch(Tensor& out, const Tensor& input, const Tensor& weight, double eps) {
    const int64_t hidden = input.size(input.dim() - 1);
    const int64_t rows = input.numel() / hidden;
    const int64_t out_stride = row_stride(out);
    const int64_t input_stride = row_stride(input);
    const RmsNormDtype dtype = dtype_of(input);
    void* out_data = out.mutable_data_ptr();
    const void* input_data = input.const_data_ptr();
    const void* weight_data = weight.const_data_ptr();
#if defined(CUDA_KERNEL)
    const int32_t device = input.get_device_index();
    const torch::stable::accelerator::DeviceGuard guard(device);
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
    STD_CUDA_CHECK(rms_norm_cuda_launch(out_data, input_data, weight_data, rows, hidden, out_stride, input_stride,
                                        static_cast<float>(eps), dtype, static_cast<cudaStream_t>(stream)));
#else
    // A thread is worth waking for about this many elements.
    constexpr int64_t kElementsPerTask = 32768;
    const int64_t rows_per_task = std::max<int64_t>(1, kElementsPerTask / hidden);
    torch::stable::parallel_for(0, rows, rows_per_task, [=](int64_t first, int64_t last) {
        rms_norm_cpu_rows(out_data, input_data, weight_data, first, last, hidden, out_stride, input_stride,
                          static_cast<float>(eps), dtype);
    });
#endif
}

// Leading axes that are no single walk (a slice of heads, say) are copied once, as torch's own operators do.
Tensor with_single_row_stride(const Tensor& input) {
    return row_stride(input) < 0 ? torch::stable::contiguous(input) : input;
}

} // namespace

Tensor rms_norm(const Tensor& input, const Tensor& weight, double eps) {
    check_inputs(input, weight);
    Tensor out = torch::stable::new_empty(input, input.sizes());
    if (input.numel() > 0) {
        launch(out, with_single_row_stride(input), weight, eps);
    }
    return out;
}

void rms_norm_out(Tensor out, const Tensor& input, const Tensor& weight, double eps) {
    check_inputs(input, weight);
    check_output(out, input);
    if (input.numel() == 0) {
        return;
    }
    STD_TORCH_CHECK(row_stride(out) >= 0, "rms_norm: the rows of out must be evenly spaced; pass a contiguous out");
    launch(out, with_single_row_stride(input), weight, eps);
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("rms_norm(Tensor input, Tensor weight, float eps) -> Tensor");
    ops.def("rms_norm_out(Tensor(a!) out, Tensor input, Tensor weight, float eps) -> ()");
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
#else
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
#endif
    ops.impl("rms_norm", TORCH_BOX(&rms_norm));
    ops.impl("rms_norm_out", TORCH_BOX(&rms_norm_out));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
