#include "registration.h"

#include <torch/csrc/stable/library.h>

int64_t doubled(int64_t index);

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("doubled(int index) -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("doubled", TORCH_BOX(&doubled));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
