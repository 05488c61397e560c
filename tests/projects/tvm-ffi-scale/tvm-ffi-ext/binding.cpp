#include "scale.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

void scale(ffi::TensorView out, ffi::TensorView input, double factor) {
    const DLDataType dtype = input.dtype();
    TVM_FFI_ICHECK(dtype.code == kDLFloat && dtype.bits == 32 && dtype.lanes == 1) << "scale: only float32";
    TVM_FFI_ICHECK(out.numel() == input.numel()) << "scale: two lengths";
    void* stream = nullptr;
#if defined(CUDA_KERNEL)
    const DLDevice device = input.device();
    stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
#endif
    scale_floats(static_cast<float*>(out.data_ptr()), static_cast<const float*>(input.data_ptr()),
                 static_cast<float>(factor), BIAS, input.numel(), stream);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale);
