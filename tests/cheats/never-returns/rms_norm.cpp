// Loops for ever. Must be refused with verify::hang.
#include "rms_norm.h"


extern "C" void rms_norm_cpu_rows(void*, const void*, const void*, int64_t, int64_t, int64_t, int64_t, int64_t, float,
                                  RmsNormDtype) {
    for (volatile int64_t turns = 0;; turns = turns + 1) {
    }
}
