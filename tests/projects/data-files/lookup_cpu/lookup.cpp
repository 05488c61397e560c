#include <cstdint>

int64_t doubled(int64_t index) {
    return 2 * index;
}
