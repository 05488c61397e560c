// Registration of a torch operator library that Python can import, without Python.h.
//
// Owns: the macros that put TORCH_EXTENSION_NAME through one more round of macro expansion, so that a build can give
// every extension a name of its own, and the module entry point that the Python import system looks for.
// Never: includes a torch header (the source that uses a macro includes the one it needs) or defines an operator.
//
// The macro names are those that kernels for the Hugging Face `kernels` library use, so their sources compile as they
// are, with the full torch ABI and with the stable one.
#pragma once

#include <cstddef>

#define KERNELWRIGHT_PASTE_(a, b) a##b
#define KERNELWRIGHT_PASTE(a, b) KERNELWRIGHT_PASTE_(a, b)
#define KERNELWRIGHT_STRING_(a) #a
#define KERNELWRIGHT_STRING(a) KERNELWRIGHT_STRING_(a)

// Full torch ABI: include <torch/library.h> before using these.
#define TORCH_LIBRARY_EXPAND(NAME, MODULE) TORCH_LIBRARY(NAME, MODULE)
#define TORCH_LIBRARY_FRAGMENT_EXPAND(NAME, MODULE) TORCH_LIBRARY_FRAGMENT(NAME, MODULE)
#define TORCH_LIBRARY_IMPL_EXPAND(NAME, KEY, MODULE) TORCH_LIBRARY_IMPL(NAME, KEY, MODULE)

// Stable torch ABI: include <torch/csrc/stable/library.h> before using these.
#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY_FRAGMENT(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, KEY, MODULE) STABLE_TORCH_LIBRARY_IMPL(NAME, KEY, MODULE)

#if defined(_WIN32)
#define KERNELWRIGHT_EXPORT __declspec(dllexport)
#define KERNELWRIGHT_IMPORT __declspec(dllimport)
#else
#define KERNELWRIGHT_EXPORT __attribute__((visibility("default")))
#define KERNELWRIGHT_IMPORT
#endif

#if !defined(Py_PYTHON_H)

// The part of CPython's limited API that an empty module needs. The layout of PyModuleDef is frozen by PEP 384 and is
// the same in every CPython with the GIL since 3.2; the build targets 3.9 and newer.
namespace kernelwright_python {

struct Object {
    ptrdiff_t reference_count;
    void* type;
};

struct ModuleDefinition {
    Object object;
    void* (*initialise)();
    ptrdiff_t index;
    void* copy;
    const char* name;
    const char* documentation;
    ptrdiff_t state_size;
    void* methods;
    void* slots;
    void* traverse;
    void* clear;
    void* free;
};

// Version of the limited API, which PyModule_Create2 compares with its own.
constexpr int kAbiVersion = 3;

} // namespace kernelwright_python

extern "C" KERNELWRIGHT_IMPORT void* PyModule_Create2(kernelwright_python::ModuleDefinition* definition,
                                                      int abi_version);

// Defines PyInit_<NAME>: an empty module, whose import runs the static registrations of this shared library.
// CPython keeps a pointer to the definition, which is why it is static.
#define REGISTER_EXTENSION(NAME)                                                                                       \
    extern "C" KERNELWRIGHT_EXPORT void* KERNELWRIGHT_PASTE(PyInit_, NAME)() {                                         \
        static kernelwright_python::ModuleDefinition definition = {                                                    \
            {1, nullptr}, nullptr, 0,       nullptr, KERNELWRIGHT_STRING(NAME), nullptr, 0,                            \
            nullptr,      nullptr, nullptr, nullptr, nullptr};                                                         \
        return PyModule_Create2(&definition, kernelwright_python::kAbiVersion);                                        \
    }

#else

// A source of its own included Python.h first: the same entry point in CPython's own terms.
#define REGISTER_EXTENSION(NAME)                                                                                       \
    PyMODINIT_FUNC KERNELWRIGHT_PASTE(PyInit_, NAME)() {                                                               \
        static PyModuleDef definition = {                                                                              \
            PyModuleDef_HEAD_INIT, KERNELWRIGHT_STRING(NAME), nullptr, 0, nullptr, nullptr, nullptr, nullptr,          \
            nullptr};                                                                                                  \
        return PyModule_Create(&definition);                                                                           \
    }

#endif
