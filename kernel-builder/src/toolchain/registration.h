// What a kernel's binding includes to become a Python extension module: the macros of the kernel-builder format,
// without Python's headers, so that an extension compiles where only a Python interpreter is installed.
//
// The two declarations below are the stable ABI of CPython on 64-bit platforms (PEP 384): the layout of PyModuleDef
// has not changed since Python 3.5, and PyModule_Create2 checks the ABI version it is handed.
#pragma once

#define KERNELWRIGHT_JOIN_(first, second) first##second
#define KERNELWRIGHT_JOIN(first, second) KERNELWRIGHT_JOIN_(first, second)
#define KERNELWRIGHT_TEXT_(name) #name
#define KERNELWRIGHT_TEXT(name) KERNELWRIGHT_TEXT_(name)

// The macros of torch/library.h and torch/csrc/stable/library.h paste their first argument; one more level lets it be
// a macro, as TORCH_EXTENSION_NAME is.
#define TORCH_LIBRARY_EXPAND(name, module) TORCH_LIBRARY(name, module)
#define TORCH_LIBRARY_FRAGMENT_EXPAND(name, module) TORCH_LIBRARY_FRAGMENT(name, module)
#define TORCH_LIBRARY_IMPL_EXPAND(name, device, module) TORCH_LIBRARY_IMPL(name, device, module)
#define STABLE_TORCH_LIBRARY_EXPAND(name, module) STABLE_TORCH_LIBRARY(name, module)
#define STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(name, module) STABLE_TORCH_LIBRARY_FRAGMENT(name, module)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(name, device, module) STABLE_TORCH_LIBRARY_IMPL(name, device, module)

// The full-ABI headers of PyTorch may bring in Python.h; then its own declarations serve.
#ifdef Py_PYTHON_H

#define REGISTER_EXTENSION(name)                                                              \
  PyMODINIT_FUNC KERNELWRIGHT_JOIN(PyInit_, name)() {                                         \
    static struct PyModuleDef module = {                                                      \
        PyModuleDef_HEAD_INIT, KERNELWRIGHT_TEXT(name), nullptr, 0, nullptr};                 \
    return PyModule_Create(&module);                                                          \
  }

#else

namespace kernelwright {

struct ModuleDefinition {
  long reference_count;
  void *type;
  void *initialize;
  long index;
  void *copy;
  const char *name;
  const char *documentation;
  long state_size;
  void *methods;
  void *slots;
  void *traverse;
  void *clear;
  void *free;
};

static_assert(sizeof(void *) == 8 && sizeof(long) == 8, "written for 64-bit Unix");

}  // namespace kernelwright

// 3 is the version of the stable ABI (PYTHON_ABI_VERSION).
#define REGISTER_EXTENSION(name)                                                                         \
  extern "C" void *PyModule_Create2(void *definition, int abi_version);                                  \
  extern "C" __attribute__((visibility("default"))) void *KERNELWRIGHT_JOIN(PyInit_, name)() {           \
    static kernelwright::ModuleDefinition module = {1,       nullptr, nullptr, 0,       nullptr,         \
                                                    KERNELWRIGHT_TEXT(name),   nullptr, 0,       nullptr, \
                                                    nullptr, nullptr, nullptr, nullptr};                 \
    return PyModule_Create2(&module, 3);                                                                 \
  }

#endif
