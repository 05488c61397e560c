// Cross-entropy of rows of logits. Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread adds at a time. AHEAD: whether it has fetched as many more before. STREAM: whether
// logits are marked as used once.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace loss {

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

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// The exponential in as few instructions as the result's dtype allows.
template <typename T>
__device__ __forceinline__ float exponential(float value) {
    if constexpr (sizeof(T) == 4) {
        return expf(value);
    } else {
        return __expf(value);
    }
}

// What is known of a row, or of a part of it: the largest value, and the sum of exp(value - largest). Where there is no
// value above minus infinity, the sum is that of exp(value), so zero: the difference would be NaN.
struct Known {
    float largest;
    float sum;
};

__device__ __forceinline__ Known nothing() { return {minus_infinity(), 0.0f}; }

// What exponents are relative to.
__device__ __forceinline__ float origin(float largest) { return largest == minus_infinity() ? 0.0f : largest; }

template <typename T, typename Unit, int kElements>
__device__ __forceinline__ void add(Known& known, const Unit& unit) {
    float largest = known.largest;
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        largest = fmaxf(largest, unit.get(j));
    }
    const float from = origin(largest);
    float sum = known.largest == largest ? known.sum : known.sum * exponential<T>(known.largest - from);
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sum += exponential<T>(unit.get(j) - from);
    }
    known = {largest, sum};
}

// Over kLanes neighboring threads of a warp, known to all of them.
template <typename T, int kLanes>
__device__ __forceinline__ Known over_lanes(Known known) {
    float largest = known.largest;
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    float sum = known.sum * exponential<T>(known.largest - origin(largest));
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    return {largest, sum};
}

// Over the threads of a row, known to all of them and added in the same order in every run. kLanes threads have a row:
// a part of a warp, or whole warps. kRows rows share a block.
template <typename T, int kLanes, int kRows>
__device__ __forceinline__ Known over_row(Known known) {
    if constexpr (kLanes <= kWarp) {
        return over_lanes<T, kLanes>(known);
    } else {
        constexpr int kWarps = kLanes / kWarp;
        __shared__ Known parts[kRows * kWarps];
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        known = over_lanes<T, kWarp>(known);
        if (lane == 0) {
            parts[warp] = known;
        }
        __syncthreads();
        return over_lanes<T, kWarp>(lane < kWarps ? parts[warp / kWarps * kWarps + lane] : nothing());
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

// Vectors of a slice, one every kBlock places; minus infinity, which adds nothing, behind its end.
template <typename Unit, int kBlock, int kElements>
__device__ __forceinline__ void fetch(
    Unit (&units)[kUnroll], const typename Unit::Bits* from, int64_t start, int64_t vectors) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        if (start + i * kBlock < vectors) {
            units[i].bits = load(from + start + i * kBlock);
        } else {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                units[i].set(j, minus_infinity());
            }
        }
    }
}

// What a block finds in a slice. All vectors that a thread has in flight are added at a time: what was known is made
// relative to another largest value once for all of them. With AHEAD the next are on their way meanwhile.
template <typename T, int kBlock, int kElements>
__device__ __forceinline__ Known read(const T* input, const Slice<kElements>& slice) {
    using Unit = Vector<T, kElements>;
    const auto* const from = reinterpret_cast<const typename Unit::Bits*>(input + slice.aligned());
    Known known = nothing();
    Unit units[kUnroll];
#if AHEAD
    fetch<Unit, kBlock, kElements>(units, from, threadIdx.x, slice.vectors);
#endif
    for (int64_t start = threadIdx.x; start < slice.vectors; start += kBlock * kUnroll) {
#if AHEAD
        Unit next[kUnroll];
        fetch<Unit, kBlock, kElements>(next, from, start + kBlock * kUnroll, slice.vectors);
#else
        fetch<Unit, kBlock, kElements>(units, from, start, slice.vectors);
#endif
        float largest = known.largest;
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                largest = fmaxf(largest, units[i].get(j));
            }
        }
        const float origin_now = origin(largest);
        float sums[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            sums[i] = 0.0f;
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                sums[i] += exponential<T>(units[i].get(j) - origin_now);
            }
        }
        float sum = known.sum * exponential<T>(known.largest - origin_now);
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            sum += sums[i];
        }
        known = {largest, sum};
#if AHEAD
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            units[i].bits = next[i].bits;
        }
#endif
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        Vector<T, 1> unit;
        unit.elements[0] = input[single];
        add<T, Vector<T, 1>, 1>(known, unit);
    }
    return over_row<T, kBlock, 1>(known);
}

// hole: finish
// The results of a row. It is NaN that comes of a row without a logit above minus infinity, or with NaN or plus
// infinity, as in PyTorch. A target that is not among the columns, or is to be ignored, costs nothing.
template <typename T>
__device__ __forceinline__ void finish(
    float* loss, float* lse, const T* input, const long long* target, int64_t row, int64_t vocabulary,
    long long ignored, Known known) {
    const float nan = __int_as_float(0x7fffffff);
    const float logarithm = known.largest == minus_infinity() ? nan : known.largest + logf(known.sum);
    const long long column = target[row];
    const bool counts = column != ignored && column >= 0 && column < vocabulary;
    lse[row] = logarithm;
    loss[row] = counts ? logarithm - to_float(input[row * vocabulary + column]) : 0.0f;
}
// end of hole: finish

// A row by one block.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    read_rows(float* loss, float* lse, const T* input, const long long* target, long long vocabulary,
              long long ignored) {
    const Known known = read<T, kBlock>(input, slice_of<kElements>(blockIdx.x, vocabulary, 0, 1));
    if (threadIdx.x == 0) {
        finish(loss, lse, input, target, blockIdx.x, vocabulary, ignored, known);
    }
}

// A row by several blocks: what each finds in its part, and then, by a warp a row, the results.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    read_parts(float* found, const T* input, long long vocabulary, int parts) {
    const Known known =
        read<T, kBlock>(input, slice_of<kElements>(blockIdx.x / parts, vocabulary, blockIdx.x % parts, parts));
    if (threadIdx.x == 0) {
        found[2 * blockIdx.x] = known.largest;
        found[2 * blockIdx.x + 1] = known.sum;
    }
}

template <typename T>
__global__ void __launch_bounds__(kWarp)
    join_parts(float* loss, float* lse, const T* input, const long long* target, const float* found,
               long long vocabulary, long long ignored, int parts) {
    const int64_t row = blockIdx.x;
    const float* const of_row = found + 2 * row * parts;
    const int lane = threadIdx.x;
    const Known part = lane < parts ? Known{of_row[2 * lane], of_row[2 * lane + 1]} : nothing();
    const Known known = over_lanes<T, kWarp>(part);
    if (lane == 0) {
        finish(loss, lse, input, target, row, vocabulary, ignored, known);
    }
}

}  // namespace loss
