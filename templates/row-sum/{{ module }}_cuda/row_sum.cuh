// Sums and means of rows.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight. STREAM: whether the input is marked as used once.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace rows {

constexpr int kWarp = 32;
// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void from_float(float value, float& to) { to = value; }
__device__ __forceinline__ void from_float(float value, __half& to) { to = __float2half_rn(value); }
__device__ __forceinline__ void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

// As many bytes as one load moves.
template <int kBytes>
struct Word;
template <>
struct Word<2> {
    using Type = uint16_t;
};
template <>
struct Word<4> {
    using Type = uint32_t;
};
template <>
struct Word<8> {
    using Type = uint2;
};
template <>
struct Word<16> {
    using Type = uint4;
};

template <typename T, int kElements>
struct Vector {
    using Bits = typename Word<kElements * sizeof(T)>::Type;
    union {
        Bits bits;
        T elements[kElements];
    };
    __device__ Vector() {}
    __device__ __forceinline__ float get(int place) const { return to_float(elements[place]); }
    __device__ __forceinline__ void set(int place, float value) { from_float(value, elements[place]); }
};

template <typename Bits>
__device__ __forceinline__ Bits load(const Bits* from) {
#if STREAM
    return __ldcs(from);
#else
    return *from;
#endif
}

// Sum over kLanes neighboring threads of a warp, known to all of them.
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
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
        return lanes_sum<kWarp>(lane < kWarps ? sums[warp / kWarps * kWarps + lane] : 0.0f);
    }
}

// A part of a row as vectors, which begin where addresses are multiples of theirs, and single elements around them.
template <int kElements>
struct Slice {
    int64_t first;
    int head;
    int64_t vectors;
    int tail;

    __device__ Slice(int64_t first, int64_t count) : first(first) {
        head = static_cast<int>((kElements - first % kElements) % kElements);
        head = head < count ? head : static_cast<int>(count);
        vectors = (count - head) / kElements;
        tail = static_cast<int>((count - head) % kElements);
    }
    __device__ int64_t aligned() const { return first + head; }
    // The single element that is this thread's, or -1.
    __device__ int64_t single(int thread) const {
        if (thread < head) {
            return first + thread;
        }
        return thread < head + tail ? aligned() + vectors * kElements + (thread - head) : -1;
    }
};

// The slice of a row that block `part` of `parts` has.
template <int kElements>
__device__ __forceinline__ Slice<kElements> slice_of(int64_t row, int64_t hidden, int part, int parts) {
    const int64_t share = (hidden + parts - 1) / parts;
    const int64_t begin = share * part < hidden ? share * part : hidden;
    const int64_t end = begin + share < hidden ? begin + share : hidden;
    return Slice<kElements>(row * hidden + begin, end - begin);
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
    float sum = 0.0f;
#pragma unroll kUnroll
    for (int place = lane; place < length; place += kLanes) {
        Unit unit;
        unit.bits = load(from + place);
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            sum += unit.get(j);
        }
    }
    sum = lanes_sum<kLanes>(sum);
    if (lane == 0 && row < rows) {
        from_float(kMean ? sum / hidden : sum, out[row]);
    }
}

// The sum of a slice, by a block. Elements of a vector are added apart, so that additions need not wait for each other.
template <typename T, int kBlock, int kElements>
__device__ __forceinline__ float sum_slice(const T* input, const Slice<kElements>& slice) {
    float sums[kElements] = {};
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
                    sums[j] += units[i].get(j);
                }
            }
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sum += sums[j];
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        sum += to_float(input[single]);
    }
    return row_sum<kBlock, 1>(sum);
}

// A row by one block.
template <typename T, int kBlock, int kElements, bool kMean>
__global__ void __launch_bounds__(kBlock) sum_rows(T* out, const T* input, long long hidden) {
    const float sum = sum_slice<T, kBlock>(input, slice_of<kElements>(blockIdx.x, hidden, 0, 1));
    if (threadIdx.x == 0) {
        from_float(kMean ? sum / hidden : sum, out[blockIdx.x]);
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
    const float sum = lanes_sum<kWarp>(lane < parts ? sums[static_cast<int64_t>(blockIdx.x) * parts + lane] : 0.0f);
    if (lane == 0) {
        from_float(kMean ? sum / hidden : sum, out[blockIdx.x]);
    }
}

}  // namespace rows
