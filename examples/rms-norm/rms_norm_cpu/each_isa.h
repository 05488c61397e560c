// The body of a CPU kernel for each instruction set, and the choice among them at run time.
// Owns: which instruction sets there are. Never: knows an operation, allocates, starts threads, keeps state.
//
// A source names its body in KERNEL_BODY and includes this file after the header of its call. The body is included once
// per instruction set, after vectors.h; it defines, in namespace KERNEL_ISA and with KERNEL_TARGET,
//
//     template <typename Type>
//     void pieces(const Call& call, int64_t first, int64_t last);
//
// of which run() calls the right one. KERNEL_ISA names the namespace, KERNEL_TARGET is the attribute that lets the
// compiler use the set, KERNEL_LANES is how many floats one of its registers holds, and KERNEL_X86 is the width in bits
// for which Intel's functions are used, or 0.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
// gcc notes that wide vectors are passed differently under different instruction sets; none leaves its own here.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace {

template <typename Call>
using Pieces = void (*)(const Call& call, int64_t first, int64_t last);

#define KERNEL_ISA baseline
#define KERNEL_TARGET
#define KERNEL_LANES 4
#define KERNEL_X86 0
#include "vectors.h"
#include KERNEL_BODY
#include "select.h"
#undef KERNEL_ISA
#undef KERNEL_TARGET
#undef KERNEL_LANES
#undef KERNEL_X86

#if defined(__x86_64__)

#define KERNEL_ISA avx2
#define KERNEL_TARGET __attribute__((target("avx2,fma,f16c")))
#define KERNEL_LANES 8
#define KERNEL_X86 256
#include "vectors.h"
#include KERNEL_BODY
#include "select.h"
#undef KERNEL_ISA
#undef KERNEL_TARGET
#undef KERNEL_LANES
#undef KERNEL_X86

#define KERNEL_ISA avx512
#define KERNEL_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define KERNEL_LANES 16
#define KERNEL_X86 512
#include "vectors.h"
#include KERNEL_BODY
#include "select.h"
#undef KERNEL_ISA
#undef KERNEL_TARGET
#undef KERNEL_LANES
#undef KERNEL_X86

#endif

// The pieces of a call whose elements are of `type`. Types that no vector is for are left alone: op.toml has none.
template <typename Call>
inline void run(Element type, const Call& call, int64_t first, int64_t last) {
    Pieces<Call> chosen = nullptr;
#if defined(__x86_64__)
    const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        chosen = avx512::select<Call>(type);
    } else if (has_avx2) {
        chosen = avx2::select<Call>(type);
    } else {
        chosen = baseline::select<Call>(type);
    }
#else
    chosen = baseline::select<Call>(type);
#endif
    if (chosen != nullptr) {
        chosen(call, first, last);
    }
}

} // namespace
