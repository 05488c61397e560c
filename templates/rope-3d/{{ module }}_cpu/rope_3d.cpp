// Rotary embedding of a video on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in rope_3d_tokens.h, compiled for each instruction set by each_isa.h.

#include "rope_3d_call.h"

#define KERNEL_BODY "rope_3d_tokens.h"
#include "each_isa.h"

extern "C" void rope_3d_cpu(const Rope3dCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
