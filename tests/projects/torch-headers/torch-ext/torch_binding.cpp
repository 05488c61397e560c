#include "torch_binding.h"

#include "registration.h"

#include <torch/library.h>

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("clamp(Tensor! out, Tensor input, float low, float high) -> ()");
#if defined(CPU_KERNEL)
    ops.impl("clamp", torch::kCPU, &clamp);
#elif defined(CUDA_KERNEL)
    ops.impl("clamp", torch::kCUDA, &clamp);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
