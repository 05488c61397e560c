// The largest elements of rows, and where they are.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight. STREAM: whether the input is marked as used once.

#include "row_parts.cuh"

namespace row_max {

using namespace row_parts;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// An element and its column. Of equal ones the first counts, and NaN more than anything, as in PyTorch.
struct Best {
    float value;
    int column;
};

constexpr int kNoColumn = 0x7fffffff;

// hole: combine
__device__ __forceinline__ Best nothing() { return {__int_as_float(static_cast<int>(0xff800000u)), kNoColumn}; }

__device__ __forceinline__ Best better(Best a, Best b) {
    const bool a_nan = a.value != a.value;
    const bool b_nan = b.value != b.value;
    const bool equal = a.value == b.value || (a_nan && b_nan);
    const bool take = equal ? b.column < a.column : !a_nan && (b_nan || b.value > a.value);
    return take ? b : a;
}

// What is met in the order of columns: a later one must be more.
__device__ __forceinline__ void meet(Best& best, float value, int column) {
    if (value > best.value || best.column == kNoColumn || (value != value && best.value == best.value)) {
        best = {value, column};
    }
}
// end of hole: combine

template <int kLanes>
__device__ __forceinline__ Best over_lanes(Best best) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        const float value = __shfl_xor_sync(0xffffffffu, best.value, offset);
        const int column = __shfl_xor_sync(0xffffffffu, best.column, offset);
        best = better(best, {value, column});
    }
    return best;
}

template <int kBlock>
__device__ __forceinline__ Best over_block(Best best) {
    constexpr int kWarps = kBlock / kWarp;
    __shared__ Best parts[kWarps];
    const int lane = threadIdx.x % kWarp;
    best = over_lanes<kWarp>(best);
    if (lane == 0) {
        parts[threadIdx.x / kWarp] = best;
    }
    __syncthreads();
    return over_lanes<kWarp>(lane < kWarps ? parts[lane] : nothing());
}

template <typename T>
__device__ __forceinline__ void write(T* values, long long* indices, int64_t row, Best best) {
    from_float(best.value, values[row]);
    indices[row] = best.column;
}

// Short rows: kLanes threads of a warp each.
template <typename T, int kLanes, int kRows, int kElements>
__global__ void __launch_bounds__(kLanes * kRows)
    max_short(T* values, long long* indices, const T* input, long long rows, int hidden) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / kLanes;
    const int lane = threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    Best best = nothing();
#pragma unroll kUnroll
    for (int place = lane; place < length; place += kLanes) {
        Unit unit;
        unit.bits = load(from + place);
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            meet(best, unit.get(j), place * kElements + j);
        }
    }
    best = over_lanes<kLanes>(best);
    if (lane == 0 && row < rows) {
        write(values, indices, row, best);
    }
}

// The best of a slice of a row that begins at element `row_first`, by a block.
template <typename T, int kBlock, int kElements>
__device__ __forceinline__ Best max_slice(const T* input, const Slice<kElements>& slice, int64_t row_first) {
    Best best = nothing();
    const int column = static_cast<int>(slice.aligned() - row_first);
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
                    meet(best, units[i].get(j), column + static_cast<int>(start + i * kBlock) * kElements + j);
                }
            }
        }
    }
    // Single elements lie before and behind.
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        best = better(best, {to_float(input[single]), static_cast<int>(single - row_first)});
    }
    return over_block<kBlock>(best);
}

// A row by one block.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    max_rows(T* values, long long* indices, const T* input, long long hidden) {
    const int64_t row = blockIdx.x;
    const Best best = max_slice<T, kBlock>(input, slice_of<kElements>(row, hidden, 0, 1), row * hidden);
    if (threadIdx.x == 0) {
        write(values, indices, row, best);
    }
}

// A row by several blocks: the best of each part, and then, by a warp a row, the best of these.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    max_parts(float* found, int* columns, const T* input, long long hidden, int parts) {
    const int64_t row = blockIdx.x / parts;
    const Best best =
        max_slice<T, kBlock>(input, slice_of<kElements>(row, hidden, blockIdx.x % parts, parts), row * hidden);
    if (threadIdx.x == 0) {
        found[blockIdx.x] = best.value;
        columns[blockIdx.x] = best.column;
    }
}

template <typename T>
__global__ void __launch_bounds__(kWarp)
    join_parts(T* values, long long* indices, const float* found, const int* columns, int parts) {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * parts;
    const int lane = threadIdx.x;
    const Best best = over_lanes<kWarp>(lane < parts ? Best{found[first + lane], columns[first + lane]} : nothing());
    if (lane == 0) {
        write(values, indices, blockIdx.x, best);
    }
}

}  // namespace row_max
