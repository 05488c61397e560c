#include "registration.h"

#include <torch/csrc/stable/library.h>

int64_t number();

namespace tables {
int64_t offset(int64_t row);
}

int64_t shifted() {
    return number() + tables::offset(3);
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("shifted() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("shifted", TORCH_BOX(&shifted));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
