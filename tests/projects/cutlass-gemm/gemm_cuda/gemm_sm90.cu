// The GEMM of CUTLASS's 3.x interface: Hopper's tensor memory accelerator and warp-group instructions, as its
// collective builder puts them together.
#include "gemm.h"

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

using Element = cutlass::bfloat16_t;
using Tile = cute::Shape<cute::_128, cute::_128, cute::_64>;
using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
constexpr int kAlignment = 8;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor, kAlignment, Element,
    cutlass::layout::RowMajor, kAlignment, cutlass::epilogue::collective::EpilogueScheduleAuto>::CollectiveOp;

using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, kAlignment, Element,
    cutlass::layout::ColumnMajor, kAlignment, float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::collective::KernelScheduleAuto>::CollectiveOp;

using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

static Gemm::Arguments arguments(void* out, const void* a, const void* b, int m, int n, int k) {
    const auto stride_a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, cute::make_shape(m, k, 1));
    const auto stride_b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, cute::make_shape(n, k, 1));
    const auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, cute::make_shape(m, n, 1));
    return {cutlass::gemm::GemmUniversalMode::kGemm,
            {m, n, k, 1},
            {static_cast<const Element*>(a), stride_a, static_cast<const Element*>(b), stride_b},
            {{1.0f, 0.0f}, nullptr, {}, static_cast<Element*>(out), stride_d}};
}

int64_t gemm_sm90_workspace(int m, int n, int k) {
    return static_cast<int64_t>(Gemm::get_workspace_size(arguments(nullptr, nullptr, nullptr, m, n, k)));
}

int gemm_sm90(void* out, const void* a, const void* b, int m, int n, int k, void* workspace, cudaStream_t stream) {
    const Gemm::Arguments given = arguments(out, a, b, m, n, k);
    Gemm gemm;
    cutlass::Status status = Gemm::can_implement(given);
    if (status == cutlass::Status::kSuccess) {
        status = gemm.initialize(given, workspace, stream);
    }
    if (status == cutlass::Status::kSuccess) {
        status = gemm.run(stream);
    }
    return static_cast<int>(status);
}
