// Adding and RMS normalisation on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in add_rms_norm_rows.h, compiled for each instruction set by each_isa.h.

#include "add_rms_norm_call.h"

#define KERNEL_BODY "add_rms_norm_rows.h"
#include "each_isa.h"

extern "C" void add_rms_norm_cpu(const AddRmsNormCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
