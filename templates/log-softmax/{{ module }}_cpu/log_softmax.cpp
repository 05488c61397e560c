// Log-softmax of rows on the CPU. Owns: the function that the binding calls. Never: allocates, starts threads, keeps
// state. The arithmetic is in log_softmax_rows.h, compiled for each instruction set by each_isa.h.

#include "log_softmax_call.h"

#define KERNEL_BODY "log_softmax_rows.h"
#include "each_isa.h"

extern "C" void log_softmax_cpu(const LogSoftmaxCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
