// Running sums on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in cumsum_rows.h, compiled for each instruction set by each_isa.h.

#include "cumsum_call.h"

#define KERNEL_BODY "cumsum_rows.h"
#include "each_isa.h"

extern "C" void cumsum_cpu(const CumsumCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
