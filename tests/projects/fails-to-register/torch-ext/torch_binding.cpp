#include "registration.h"

#include <torch/library.h>

int64_t number();

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
    ops.def("number() -> int", &number);
    ops.def("number(int times) -> int");
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
