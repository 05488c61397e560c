// GEGLU on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in geglu_rows.h, compiled for each instruction set by each_isa.h.

#include "geglu_call.h"

#define KERNEL_BODY "geglu_rows.h"
#include "each_isa.h"

extern "C" void geglu_cpu(const GegluCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
