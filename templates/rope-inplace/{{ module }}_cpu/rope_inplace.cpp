// Rotary embedding in place on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in rope_inplace_tokens.h, compiled for each instruction set by each_isa.h.

#include "rope_inplace_call.h"

#define KERNEL_BODY "rope_inplace_tokens.h"
#include "each_isa.h"

extern "C" void rope_inplace_cpu(const RopeInplaceCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
