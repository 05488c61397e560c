// Everything here has the same name in both twins, and another value or layout.
#pragma once

#include <cstdint>
#include <string>

// A variable of an inline function and a member of a template: what the dynamic linker makes one of in a process
// where nothing prevents it.
inline int64_t& counter() {
    static int64_t value = 0;
    return value;
}

template <typename T>
struct Shared {
    static T value;
};

template <typename T>
T Shared<T>::value = 2;

struct State {
    int64_t answer = 200;
    virtual int64_t tell() const {
        return answer;
    }
    virtual ~State() = default;
};

int64_t exported_function();
extern int64_t exported_variable;
