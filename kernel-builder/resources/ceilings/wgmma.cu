// The rate of matrix products on compute capability 9.0: wgmma of 64 x 256 sums, both operands in shared memory.
//
// Two groups of four warps on every multiprocessor, 16 products of each in flight, sums in registers. A tile has rows of
// 128 bytes in the layout `128-byte swizzle` (PTX ISA, "Asynchronous warpgroup level matrix instructions", "Shared Memory
// Matrix Layout"); a product takes 32 bytes of every row. What is in operands.cuh comes before this text.

namespace ceiling {

#define TEN(t) "d" #t "0,d" #t "1,d" #t "2,d" #t "3,d" #t "4,d" #t "5,d" #t "6,d" #t "7,d" #t "8,d" #t "9,"
#define SUMS                                                                                                          \
    "{" TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11)                          \
        "d120,d121,d122,d123,d124,d125,d126,d127}"
#define PRODUCT(shape, left, right, flags)                                                                            \
    "wgmma.mma_async.sync.aligned." shape " " SUMS ", " left ", " right ", add" flags ";\n"
#define ROUND(shape, flags)                                                                                           \
    PRODUCT(shape, "%3", "%7", flags) PRODUCT(shape, "%4", "%8", flags) PRODUCT(shape, "%5", "%9", flags)             \
        PRODUCT(shape, "%6", "%10", flags)
// The first product does not add, so that the sums need no zeros.
#define LOOP(shape, type, flags)                                                                                      \
    asm volatile("{\n.reg ." type " d<128>;\n.reg .pred add, again;\n.reg .s32 left;\n"                               \
                 "mov.s32 left, %2;\nsetp.ne.s32 add, 0, 0;\n"                                                        \
                 "wgmma.fence.sync.aligned;\n" PRODUCT(shape, "%3", "%7", flags)                                      \
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"                               \
                 "setp.eq.s32 add, 0, 0;\n"                                                                           \
                 "AGAIN:\nwgmma.fence.sync.aligned;\n" ROUND(shape, flags) ROUND(shape, flags) ROUND(shape, flags)    \
                     ROUND(shape, flags)                                                                              \
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"                               \
                 "sub.s32 left, left, 1;\nsetp.gt.s32 again, left, 0;\n@again bra AGAIN;\n"                           \
                 "mov.b32 %0, d0;\nmov.b32 %1, d127;\n}\n"                                                            \
                 : "=r"(first), "=r"(last)                                                                            \
                 : "r"(loops), "l"(left[0]), "l"(left[1]), "l"(left[2]), "l"(left[3]), "l"(right[0]), "l"(right[1]),  \
                   "l"(right[2]), "l"(right[3])                                                                       \
                 : "memory")

// 16 `loops` + 1 products in every group of four warps. Leaves two sums of every thread.
template <typename Kind>
__global__ void __launch_bounds__(256) products(unsigned* out, int loops, int seed) {
    // Two tiles of 64 rows for the left operands, one of 256 rows for the right one.
    __shared__ __align__(1024) unsigned tiles[(2 * 64 + 256) * 32];
    for (unsigned at = threadIdx.x; at < sizeof(tiles) / 4; at += blockDim.x) {
        tiles[at] = operand<Kind>(at, seed);
    }
    asm volatile("fence.proxy.async;\n" ::: "memory");
    __syncthreads();
    const unsigned start = static_cast<unsigned>(__cvta_generic_to_shared(tiles));
    const unsigned group = threadIdx.x / 128;
    // Start of the operand in units of 16 bytes; 1024 bytes from eight rows to the next; the swizzle of 128 bytes.
    const auto descriptor = [](unsigned address) {
        return static_cast<unsigned long long>((address & 0x3ffffu) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
    };
    unsigned long long left[4], right[4];
    for (unsigned step = 0; step < 4; ++step) {
        left[step] = descriptor(start + group * 64 * 128 + step * 32);
        right[step] = descriptor(start + 2 * 64 * 128 + step * 32);
    }
    unsigned first, last;
    if constexpr (same<Kind, Bf16>) {
        LOOP("m64n256k16.f32.bf16.bf16", "f32", ", 1, 1, 0, 0");
    } else if constexpr (same<Kind, F16>) {
        LOOP("m64n256k16.f32.f16.f16", "f32", ", 1, 1, 0, 0");
    } else if constexpr (same<Kind, Tf32>) {
        LOOP("m64n256k8.f32.tf32.tf32", "f32", ", 1, 1");
    } else if constexpr (same<Kind, E4m3>) {
        LOOP("m64n256k32.f32.e4m3.e4m3", "f32", ", 1, 1");
    } else {
        LOOP("m64n256k32.s32.s8.s8", "s32", "");
    }
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    out[2 * thread] = first;
    out[2 * thread + 1] = last;
}

}  // namespace ceiling
