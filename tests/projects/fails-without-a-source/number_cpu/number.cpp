#include <cstdint>

int64_t number() {
    return 1;
}
