// Softmax of rows on the CPU. Owns: the function that the binding calls. Never: allocates, starts threads, keeps state.
// The arithmetic is in softmax_rows.h, compiled for each instruction set by each_isa.h.

#include "softmax_call.h"

#define KERNEL_BODY "softmax_rows.h"
#include "each_isa.h"

extern "C" void softmax_cpu(const SoftmaxCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
