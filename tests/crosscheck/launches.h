// What host code of examples/rms-norm-strided calls to launch kernels, for a compiler of device code alone. Nothing here runs:
// the host's functions become device functions that nobody calls, so that they instantiate the kernels they launch.
#pragma once

#include <cuda_runtime_api.h>

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    return cudaSuccess;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t*, void (*)(Parameters...), Arguments&&...) {
    return cudaSuccess;
}

cudaError_t cudaGetLastError();
