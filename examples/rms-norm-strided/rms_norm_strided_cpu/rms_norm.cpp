// RMS normalisation on the CPU. Owns: the choice of the instruction set, at run time. Never: allocates, starts threads,
// keeps state. The arithmetic is in rows.h, compiled here for each instruction set.

#include "rms_norm.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
// gcc notes that wide vectors are passed differently under different instruction sets; none leaves its own here.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace {

using RowsFunction = void (*)(void* out, const void* input, const void* weight, int64_t first_row, int64_t last_row,
                              int64_t hidden, int64_t out_row_stride, int64_t input_row_stride, float eps);

#define KERNEL_ISA baseline
#define KERNEL_TARGET
#define KERNEL_LANES 4
#define KERNEL_CONVERTS_FLOAT16 0
#include "rows.h"
#undef KERNEL_ISA
#undef KERNEL_TARGET
#undef KERNEL_LANES
#undef KERNEL_CONVERTS_FLOAT16

#if defined(__x86_64__)

#define KERNEL_ISA avx2
#define KERNEL_TARGET __attribute__((target("avx2,fma,f16c")))
#define KERNEL_LANES 8
#define KERNEL_CONVERTS_FLOAT16 1
#include "rows.h"
#undef KERNEL_ISA
#undef KERNEL_TARGET
#undef KERNEL_LANES
#undef KERNEL_CONVERTS_FLOAT16

#define KERNEL_ISA avx512
#define KERNEL_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define KERNEL_LANES 16
#define KERNEL_CONVERTS_FLOAT16 1
#include "rows.h"
#undef KERNEL_ISA
#undef KERNEL_TARGET
#undef KERNEL_LANES
#undef KERNEL_CONVERTS_FLOAT16

#endif

RowsFunction select(RmsNormDtype dtype) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        return avx512::select(dtype);
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
        return avx2::select(dtype);
    }
#endif
    return baseline::select(dtype);
}

} // namespace

extern "C" void rms_norm_cpu_rows(void* out, const void* input, const void* weight, int64_t first_row,
                                  int64_t last_row, int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                  float eps, RmsNormDtype dtype) {
    if (const RowsFunction rows = select(dtype)) {
        rows(out, input, weight, first_row, last_row, hidden, out_row_stride, input_row_stride, eps);
    }
}
