// The GEMM of CUTLASS's 2.x interface: tensor cores of 8.0, asynchronous copies in three stages.
#include "gemm.h"

#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/device/gemm.h>

using Element = cutlass::bfloat16_t;
using Gemm = cutlass::gemm::device::Gemm<
    Element, cutlass::layout::RowMajor, Element, cutlass::layout::ColumnMajor, Element, cutlass::layout::RowMajor,
    float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<128, 128, 32>,
    cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<Element, 8, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3>;

int gemm_sm80(void* out, const void* a, const void* b, int m, int n, int k, cudaStream_t stream) {
    auto* to = static_cast<Element*>(out);
    const Gemm::Arguments arguments({m, n, k}, {static_cast<const Element*>(a), k},
                                    {static_cast<const Element*>(b), k}, {to, n}, {to, n}, {1.0f, 0.0f});
    cutlass::Status status = Gemm::can_implement(arguments);
    if (status == cutlass::Status::kSuccess) {
        Gemm gemm;
        status = gemm(arguments, nullptr, stream);
    }
    return static_cast<int>(status);
}
