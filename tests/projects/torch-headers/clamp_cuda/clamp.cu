#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/all.h>

template <typename T>
__global__ void clamp_kernel(T* __restrict__ out, const T* __restrict__ input, float low, float high, int64_t count) {
    for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
        const float value = static_cast<float>(input[i]);
        out[i] = static_cast<T>(value < low ? low : value > high ? high : value);
    }
}

void clamp(torch::Tensor& out, const torch::Tensor& input, double low, double high) {
    TORCH_CHECK(input.device().is_cuda(), "input must be a CUDA tensor");
    TORCH_CHECK(input.is_contiguous() && out.is_contiguous(), "input and out must be contiguous");
    TORCH_CHECK(out.sizes() == input.sizes(), "out and input must have the same shape");
    TORCH_CHECK(out.scalar_type() == input.scalar_type(), "out and input must have the same dtype");
    const int64_t count = input.numel();
    if (count == 0) {
        return;
    }
    const at::cuda::OptionalCUDAGuard guard(device_of(input));
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    const int64_t blocks = std::min<int64_t>((count + 255) / 256, 65535);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "clamp", [&] {
        clamp_kernel<scalar_t><<<blocks, 256, 0, stream>>>(
            out.mutable_data_ptr<scalar_t>(), input.const_data_ptr<scalar_t>(), low, high, count);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
