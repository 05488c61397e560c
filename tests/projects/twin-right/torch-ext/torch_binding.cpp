#include "../twin/state.h"

#include "registration.h"

#include <memory>

#include <torch/csrc/stable/library.h>

int64_t count() {
    return ++counter();
}

int64_t tell() {
    const std::unique_ptr<State> state = std::make_unique<State>();
    return Shared<int64_t>::value + state->tell() + exported_variable + exported_function();
}

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("count() -> int");
    ops.def("tell() -> int");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, ops) {
    ops.impl("count", TORCH_BOX(&count));
    ops.impl("tell", TORCH_BOX(&tell));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
