// A chain of elementwise steps on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in elementwise_chain.h, compiled for each instruction set by each_isa.h.

#include "elementwise_call.h"

#define KERNEL_BODY "elementwise_chain.h"
#include "each_isa.h"

extern "C" void elementwise_cpu(const ElementwiseCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
