// SwiGLU on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in swiglu_rows.h, compiled for each instruction set by each_isa.h.

#include "swiglu_call.h"

#define KERNEL_BODY "swiglu_rows.h"
#include "each_isa.h"

extern "C" void swiglu_cpu(const SwigluCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
