#include "registration.h"

#include <torch/csrc/stable/library.h>

int64_t number();

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("number() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("number", TORCH_BOX(&number));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
