#include <cstdint>

// Declared here, so that it compiles where the system's headers are older than glibc 2.34.
extern "C" int close_range(unsigned first, unsigned last, int flags) noexcept;

int64_t number_from_the_system() {
    return close_range(~0u, ~0u, 0);
}
