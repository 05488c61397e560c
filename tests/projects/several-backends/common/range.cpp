#include "range.h"

int64_t range_of(int64_t length) {
    return length > 0 ? length : 0;
}
