// Root-mean-square normalisation on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in rms_norm_rows.h, compiled for each instruction set by each_isa.h.

#include "rms_norm_call.h"

#define KERNEL_BODY "rms_norm_rows.h"
#include "each_isa.h"

extern "C" void rms_norm_cpu(const RmsNormCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
