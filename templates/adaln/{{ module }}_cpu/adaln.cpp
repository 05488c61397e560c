// Adaptive layer normalisation on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in adaln_rows.h, compiled for each instruction set by each_isa.h.

#include "adaln_call.h"

#define KERNEL_BODY "adaln_rows.h"
#include "each_isa.h"

extern "C" void adaln_cpu(const AdalnCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
