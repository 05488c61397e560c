// Instance normalisation on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in instance_norm_channels.h, compiled for each instruction set by each_isa.h.

#include "instance_norm_call.h"

#define KERNEL_BODY "instance_norm_channels.h"
#include "each_isa.h"

extern "C" void instance_norm_cpu(const InstanceNormCall& call, int64_t first, int64_t last) {
    run(call.T, call, first, last);
}
