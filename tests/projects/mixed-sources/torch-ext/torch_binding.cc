#include <src/plain.h>

#include "registration.h"

#include <torch/csrc/stable/library.h>

int square_of(int index);
extern const int kMore;

int64_t total() {
    return plain_sum(5) + square_of(6) + kMore;
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("total() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("total", TORCH_BOX(&total));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
