// Running sums of rows.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// Sums are added in the same order in every run. STREAM: whether what is not read again is marked so, and leaves the
// caches first.

#include "covered_slice.cuh"
#include "row_parts.cuh"

namespace cumsum {

using namespace vector;

template <typename T>
using Slice = covered_slice::Slice<T, false, int64_t>;

// The slice of a row that block `part` of `parts` has.
template <typename T>
__device__ __forceinline__ Slice<T> slice_of(int64_t row, int64_t hidden, int part, int parts) {
    return row_parts::part_of_row<Slice<T>>(row, hidden, part, parts);
}

// The sum up to and with this thread of the warp.
__device__ __forceinline__ float up_to(float value, int lane) {
#pragma unroll
    for (int offset = 1; offset < kWarp; offset *= 2) {
        const float before = __shfl_up_sync(0xffffffffu, value, offset);
        value = lane < offset ? value : value + before;
    }
    return value;
}

// The same of the threads before this one.
__device__ __forceinline__ float before(float up_to_this, int lane) {
    const float sum = __shfl_up_sync(0xffffffffu, up_to_this, 1);
    return lane == 0 ? 0.0f : sum;
}

template <typename Unit, int kElements>
__device__ __forceinline__ void run_on(Unit& unit, float sum) {
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sum += unit.get(j);
        unit.set(j, sum);
    }
}

// Short rows: by a warp each, 32 vectors at a time.
template <typename T>
__global__ void __launch_bounds__(128) scan_short(T* out, const T* input, long long rows, long long hidden) {
    using Unit = typename Slice<T>::Unit;
    constexpr int kElements = Slice<T>::kElements;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * 4 + threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;
    if (row >= rows) {
        return;
    }
    const Slice<T> slice(row * hidden, hidden);
    const int64_t vectors = slice.vectors();
    float carry = 0.0f;
    Unit next;
    if (lane < vectors) {
        next = slice.read(input, lane, false);
    }
    for (int64_t start = 0; start < vectors; start += kWarp) {
        const int64_t place = start + lane;
        Unit unit = next;
        if (place + kWarp < vectors) {
            next = slice.read(input, place + kWarp, false);
        }
        const float sum = up_to(place < vectors ? unit.sum() : 0.0f, lane);
        run_on<Unit, kElements>(unit, carry + before(sum, lane));
        if (place < vectors) {
            slice.write(out, place, unit);
        }
        carry += __shfl_sync(0xffffffffu, sum, kWarp - 1);
    }
}

// A slice by a block, 1024 vectors at a time: 32 groups of 32 vectors, so many a warp that a warp can add up what the
// groups have. The next vectors are on their way meanwhile.
template <typename T, int kWarps>
__device__ __forceinline__ void scan_slice(T* out, const T* input, const Slice<T>& slice, float carry) {
    using Unit = typename Slice<T>::Unit;
    constexpr int kElements = Slice<T>::kElements;
    constexpr int kGroups = kWarp / kWarps;
    constexpr int kTile = kWarp * kWarp;
    // Used in turn, so that one barrier is enough: nobody writes the one before all have read the other.
    __shared__ float sums[2][kWarp];
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int64_t vectors = slice.vectors();
    Unit next[kGroups];
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
        const int64_t place = (i * kWarps + warp) * kWarp + lane;
        if (place < vectors) {
            next[i] = slice.read(input, place, false);
        }
    }
    int turn = 0;
    for (int64_t start = 0; start < vectors; start += kTile) {
        Unit units[kGroups];
        float inner[kGroups];
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
            const int64_t place = start + (i * kWarps + warp) * kWarp + lane;
            units[i] = next[i];
            if (place + kTile < vectors) {
                next[i] = slice.read(input, place + kTile, false);
            }
        }
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
            const int64_t place = start + (i * kWarps + warp) * kWarp + lane;
            inner[i] = up_to(place < vectors ? units[i].sum() : 0.0f, lane);
            if (lane == kWarp - 1) {
                sums[turn][i * kWarps + warp] = inner[i];
            }
        }
        __syncthreads();
        const float groups = up_to(sums[turn][lane], lane);
        const float others = before(groups, lane);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
            const int64_t place = start + (i * kWarps + warp) * kWarp + lane;
            const float from = carry + __shfl_sync(0xffffffffu, others, i * kWarps + warp);
            run_on<Unit, kElements>(units[i], from + before(inner[i], lane));
            if (place < vectors) {
                slice.write(out, place, units[i]);
            }
        }
        carry += __shfl_sync(0xffffffffu, groups, kWarp - 1);
        turn = 1 - turn;
    }
}

// A row by one block.
template <typename T, int kWarps>
__global__ void __launch_bounds__(kWarp * kWarps) scan_rows(T* out, const T* input, long long hidden) {
    scan_slice<T, kWarps>(out, input, slice_of<T>(blockIdx.x, hidden, 0, 1), 0.0f);
}

// A row by several blocks: a sum each; then each adds the sums of those before it, and scans.
template <typename T, int kWarps>
__global__ void __launch_bounds__(kWarp * kWarps) sum_parts(float* sums, const T* input, long long hidden, int parts) {
    using Unit = typename Slice<T>::Unit;
    constexpr int kGroups = kWarp / kWarps;
    __shared__ float of_warps[kWarp];
    const Slice<T> slice = slice_of<T>(blockIdx.x / parts, hidden, blockIdx.x % parts, parts);
    const int64_t vectors = slice.vectors();
    float sum = 0.0f;
    for (int64_t start = threadIdx.x; start < vectors; start += kWarp * kWarp) {
        Unit units[kGroups];
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
            const int64_t place = start + i * (kWarps * kWarp);
            if (place < vectors) {
                units[i] = slice.read(input, place, true);
            }
        }
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
            if (start + i * (kWarps * kWarp) < vectors) {
                sum += units[i].sum();
            }
        }
    }
    sum = lanes_sum<kWarp>(sum);
    if (threadIdx.x % kWarp == 0) {
        of_warps[threadIdx.x / kWarp] = sum;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        sum = lanes_sum<kWarp>(threadIdx.x < kWarps ? of_warps[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) {
            sums[blockIdx.x] = sum;
        }
    }
}

template <typename T, int kWarps>
__global__ void __launch_bounds__(kWarp * kWarps)
    scan_parts(T* out, const T* input, const float* sums, long long hidden, int parts) {
    const int64_t row = blockIdx.x / parts;
    const int part = static_cast<int>(blockIdx.x % parts);
    float carry = 0.0f;
    for (int other = threadIdx.x % kWarp; other < part; other += kWarp) {
        carry += sums[row * parts + other];
    }
    scan_slice<T, kWarps>(out, input, slice_of<T>(row, hidden, part, parts), lanes_sum<kWarp>(carry));
}

}  // namespace cumsum
