#include "torch_binding.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/util/Exception.h>
#ifdef CPU_KERNEL
#include <ATen/Parallel.h>
#else
#include <c10/cuda/CUDAStream.h>
#endif
