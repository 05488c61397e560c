// Writes to the null pointer. Must be refused with verify::crash.
#include "rms_norm.h"


extern "C" void rms_norm_cpu_rows(void*, const void*, const void*, int64_t, int64_t, int64_t, int64_t, int64_t, float,
                                  RmsNormDtype) {
    volatile int* nowhere = nullptr;
    *nowhere = 1;
}
