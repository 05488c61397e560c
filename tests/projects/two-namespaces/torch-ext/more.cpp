// Operators with the names of the others, in a namespace beside theirs.
#include "registration.h"

#include <torch/csrc/stable/library.h>

#define JOINED(FIRST, SECOND) FIRST##SECOND
#define MORE(NAME) JOINED(NAME, _more)

int64_t other_number() {
    return 2;
}

STABLE_TORCH_LIBRARY_EXPAND(MORE(TORCH_EXTENSION_NAME), ops) {
    ops.def("number() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(MORE(TORCH_EXTENSION_NAME), CompositeExplicitAutograd, ops) {
    ops.impl("number", TORCH_BOX(&other_number));
}
