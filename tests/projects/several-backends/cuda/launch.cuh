// How many blocks a length needs.
#pragma once

#include <cstdint>

constexpr int kThreads = 256;

inline unsigned blocks_of(int64_t length) {
    return static_cast<unsigned>((length + kThreads - 1) / kThreads);
}
