// The least that makes an extension; what is compared is device code, which nothing calls.
#include "registration.h"

#include <torch/csrc/stable/library.h>

#include <cstdint>

int64_t nothing() {
    return 0;
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("nothing() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("nothing", TORCH_BOX(&nothing));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
