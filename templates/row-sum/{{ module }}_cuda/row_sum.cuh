// Sums and means of rows.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight. STREAM: whether the input is marked as used once.

#include "row_parts.cuh"

namespace row_sum {

using namespace row_parts;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// hole: combine
// What no element adds up to, what an element counts as, how two parts are joined, and what the whole becomes.
__device__ __forceinline__ float nothing() { return 0.0f; }
__device__ __forceinline__ float counted(float element) { return element; }
__device__ __forceinline__ float joined(float part, float other) { return part + other; }
template <bool kMean, typename Length>
__device__ __forceinline__ float whole(float sum, Length hidden) {
    return kMean ? sum / hidden : sum;
}
// end of hole: combine

// Sum over kLanes neighboring threads of a warp, known to all of them.
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        value = joined(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    return value;
}

// Sum over the threads of a row, known to all of them and added in the same order in every run. kLanes threads have a
// row: a part of a warp, or whole warps. kRows rows share a block.
template <int kLanes, int kRows>
__device__ __forceinline__ float row_sum(float value) {
    if constexpr (kLanes <= kWarp) {
        return lanes_sum<kLanes>(value);
    } else {
        constexpr int kWarps = kLanes / kWarp;
        __shared__ float sums[kRows * kWarps];
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        value = lanes_sum<kWarp>(value);
        if (lane == 0) {
            sums[warp] = value;
        }
        __syncthreads();
        return lanes_sum<kWarp>(lane < kWarps ? sums[warp / kWarps * kWarps + lane] : nothing());
    }
}

// Short rows: kLanes threads of a warp each.
template <typename T, int kLanes, int kRows, int kElements, bool kMean>
__global__ void __launch_bounds__(kLanes * kRows) sum_short(T* out, const T* input, long long rows, int hidden) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / kLanes;
    const int lane = threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    float sum = nothing();
#pragma unroll kUnroll
    for (int place = lane; place < length; place += kLanes) {
        Unit unit;
        unit.bits = load(from + place);
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            sum = joined(sum, counted(unit.get(j)));
        }
    }
    sum = lanes_sum<kLanes>(sum);
    if (lane == 0 && row < rows) {
        from_float(whole<kMean>(sum, hidden), out[row]);
    }
}

// The sum of a slice, by a block. Elements of a vector are added apart, so that additions need not wait for each other.
template <typename T, int kBlock, int kElements>
__device__ __forceinline__ float sum_slice(const T* input, const Slice<kElements>& slice) {
    float sums[kElements];
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sums[j] = nothing();
    }
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input + slice.aligned());
    for (int64_t start = threadIdx.x; start < slice.vectors; start += kBlock * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                units[i].bits = load(from + start + i * kBlock);
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    sums[j] = joined(sums[j], counted(units[i].get(j)));
                }
            }
        }
    }
    float sum = nothing();
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sum = joined(sum, sums[j]);
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        sum = joined(sum, counted(to_float(input[single])));
    }
    return row_sum<kBlock, 1>(sum);
}

// A row by one block.
template <typename T, int kBlock, int kElements, bool kMean>
__global__ void __launch_bounds__(kBlock) sum_rows(T* out, const T* input, long long hidden) {
    const float sum = sum_slice<T, kBlock>(input, slice_of<kElements>(blockIdx.x, hidden, 0, 1));
    if (threadIdx.x == 0) {
        from_float(whole<kMean>(sum, hidden), out[blockIdx.x]);
    }
}

// A row by several blocks: a sum each, and then, by a warp a row, the sum of these.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock) sum_parts(float* sums, const T* input, long long hidden, int parts) {
    const float sum =
        sum_slice<T, kBlock>(input, slice_of<kElements>(blockIdx.x / parts, hidden, blockIdx.x % parts, parts));
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}

template <typename T, bool kMean>
__global__ void __launch_bounds__(kWarp) join_parts(T* out, const float* sums, long long hidden, int parts) {
    const int lane = threadIdx.x;
    const float sum = lanes_sum<kWarp>(lane < parts ? sums[static_cast<int64_t>(blockIdx.x) * parts + lane] : nothing());
    if (lane == 0) {
        from_float(whole<kMean>(sum, hidden), out[blockIdx.x]);
    }
}

}  // namespace row_sum
