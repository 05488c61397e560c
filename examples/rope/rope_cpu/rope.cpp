// Rotary embedding on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in rope_tokens.h, compiled for each instruction set by each_isa.h.

#include "rope_call.h"

#define KERNEL_BODY "rope_tokens.h"
#include "each_isa.h"

extern "C" void rope_cpu(const RopeCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
