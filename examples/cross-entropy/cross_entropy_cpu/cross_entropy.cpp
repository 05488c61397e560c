// Cross-entropy of rows on the CPU. Owns: the function that the binding calls. Never: allocates, starts threads, keeps
// state. The arithmetic is in cross_entropy_rows.h, compiled for each instruction set by each_isa.h.

#include "cross_entropy_call.h"

#define KERNEL_BODY "cross_entropy_rows.h"
#include "each_isa.h"

extern "C" void cross_entropy_cpu(const CrossEntropyCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
