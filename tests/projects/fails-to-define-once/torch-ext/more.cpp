// Another author's part of the binding, with an operator of the same name.
#include "registration.h"

#include <torch/csrc/stable/library.h>

int64_t other_number() {
    return 2;
}

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("number() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("number", TORCH_BOX(&other_number));
}
