// Sums of rows on the CPU. Owns: the function that the binding calls. Never: allocates, starts
// threads, keeps state. The arithmetic is in row_sum_rows.h, compiled for each instruction set by each_isa.h.

#include "row_sum_call.h"

#define KERNEL_BODY "row_sum_rows.h"
#include "each_isa.h"

extern "C" void row_sum_cpu(const RowSumCall& call, int64_t first, int64_t last) { run(call.T, call, first, last); }
