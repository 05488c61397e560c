// Owns: the instructions by which warps multiply on any GPU of capability 8.0 or later: copies of 16 bytes to shared memory
// (cp.async), fragments of matrices, and where the units of a tile lie.
// Never: what is copied, and in which order.
#pragma once
#include "hopper.cuh"

namespace gemm {

// Copies 16 bytes to shared memory, or writes zeros.
__device__ __forceinline__ void copy(unsigned target, const void* source, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(inside ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four matrices of 8 by 8. Each thread names a row; the rows of eight threads after each other make a matrix.
__device__ __forceinline__ void load_fragment(unsigned (&fragment)[4], unsigned source) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(source)
                 : "memory");
}

// 16 by 8 sums, plus 16 by 16 times 16 by 8.
__device__ __forceinline__ void multiply_fragments(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
  asm volatile(
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, "
    "{ %0, %1, %2, %3};"
    : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_fragments(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
  asm volatile(
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, "
    "{ %0, %1, %2, %3};"
    : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same, each of them transposed.
__device__ __forceinline__ void load_transposed(unsigned (&fragment)[4], unsigned source) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(source)
                 : "memory");
}

// Where a unit of 8 elements of a tile with rows of `width` elements lies, in bytes. Units are permuted so that the same unit
// of eight rows after each other lies in all banks.
template <int width>
__device__ __forceinline__ unsigned place_of(int row, int unit) {
  constexpr int units = width / 8, period = units < 8 ? units : 8;
  return (row * units + (unit ^ (row * period / 8 & (period - 1)))) * 16;
}

}  // namespace gemm
