#include "registration.h"

#include <torch/csrc/stable/library.h>

int cutlass_version();

int64_t version() {
    return cutlass_version();
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("version() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("version", TORCH_BOX(&version));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
