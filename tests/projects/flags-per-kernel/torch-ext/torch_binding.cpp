#if !defined(FOR_THE_BINDING)
#error "cxx-flags of the binding are missing"
#endif

#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#if defined(CUDA_KERNEL)
int old();
int hopper();
int host();
int every();
#else
int plain();
int flagged();
#endif

int64_t total() {
#if defined(CUDA_KERNEL)
    return old() + hopper() + host() + every();
#else
    return plain() + flagged();
#endif
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("total() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("total", TORCH_BOX(&total));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
