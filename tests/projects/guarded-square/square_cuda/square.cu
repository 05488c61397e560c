#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

static __global__ void square_kernel(float* values, int64_t count) {
    const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
    if (i < count) {
        values[i] *= values[i];
    }
}

void square_(at::Tensor& values) {
    TORCH_CHECK(values.is_contiguous() && values.scalar_type() == at::kFloat, "only contiguous float32 tensors");
    const c10::cuda::CUDAGuard guard(values.device());
    const int64_t count = values.numel();
    if (count > 0) {
        const unsigned blocks = static_cast<unsigned>((count + 255) / 256);
        square_kernel<<<blocks, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(values.mutable_data_ptr<float>(), count);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
}
