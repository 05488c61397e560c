// SwiGLU on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in mul_and_silu_rows.h, compiled for each instruction set by each_isa.h.

#include "mul_and_silu_call.h"

#define KERNEL_BODY "mul_and_silu_rows.h"
#include "each_isa.h"

extern "C" void mul_and_silu_cpu(const MulAndSiluCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
