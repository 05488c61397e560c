// Group normalisation on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in group_norm_channels.h, compiled for each instruction set by each_isa.h.

#include "group_norm_call.h"

#define KERNEL_BODY "group_norm_channels.h"
#include "each_isa.h"

extern "C" void group_norm_cpu(const GroupNormCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
