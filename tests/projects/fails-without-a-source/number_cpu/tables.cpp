#include <cstdint>

namespace tables {
int64_t offset(int64_t row) {
    return 8 * row;
}
}
