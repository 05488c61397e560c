// The sum of the exponentials of a row, in one pass over it: Milakov and Gimelshein, Online normalizer calculation for
// softmax (2018).
// Owns: the sums of threads, warps, blocks and parts of a row. Never: a kernel.

#pragma once

#include "row_parts.cuh"

namespace exponential_sum {

using namespace row_parts;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// Of a row, or of a part of it: the largest value, and the sum of exp(value - largest). Where there is no value above minus
// infinity, the sum is that of exp(value), so zero: the difference would be NaN.
struct ExponentialSum {
    float largest;
    float sum;
};

__device__ __forceinline__ ExponentialSum nothing() { return {minus_infinity(), 0.0f}; }

// The value that exponents are relative to.
__device__ __forceinline__ float origin(float largest) { return largest == minus_infinity() ? 0.0f : largest; }

// The exponential that the functions below use by default; a kernel may give them another one.
template <typename T>
struct Exponential {
    static __device__ __forceinline__ float of(float value) { return exponential<T>(value); }
};

template <typename Exponential, typename Unit, int kElements>
__device__ __forceinline__ void add(ExponentialSum& known, const Unit& unit) {
    float largest = known.largest;
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        largest = fmaxf(largest, unit.get(j));
    }
    const float from = origin(largest);
    float sum = known.largest == largest ? known.sum : known.sum * Exponential::of(known.largest - from);
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sum += Exponential::of(unit.get(j) - from);
    }
    known = {largest, sum};
}

// Over kLanes neighboring threads of a warp, known to all of them.
template <typename Exponential, int kLanes>
__device__ __forceinline__ ExponentialSum over_lanes(ExponentialSum known) {
    float largest = known.largest;
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    float sum = known.sum * Exponential::of(known.largest - origin(largest));
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    return {largest, sum};
}

// Over the threads of a row, known to all of them and added in the same order in every run. kLanes threads have a row:
// a part of a warp, where kRows rows share a block; or the whole block, which has kLanes threads at most.
template <typename Exponential, int kLanes, int kRows>
__device__ __forceinline__ ExponentialSum over_row(ExponentialSum known) {
    if constexpr (kLanes <= kWarp) {
        return over_lanes<Exponential, kLanes>(known);
    } else {
        static_assert(kRows == 1);
        __shared__ ExponentialSum parts[kLanes / kWarp];
        const int warps = blockDim.x / kWarp;
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        known = over_lanes<Exponential, kWarp>(known);
        if (lane == 0) {
            parts[warp] = known;
        }
        __syncthreads();
        return over_lanes<Exponential, kWarp>(lane < warps ? parts[lane] : nothing());
    }
}

// The same where a block has kLanes threads for each of kRows rows, so that the number of warps is known when this is compiled.
template <typename Exponential, int kLanes, int kRows>
__device__ __forceinline__ ExponentialSum over_full_row(ExponentialSum known) {
    if constexpr (kLanes <= kWarp) {
        return over_lanes<Exponential, kLanes>(known);
    } else {
        constexpr int kWarps = kLanes / kWarp;
        __shared__ ExponentialSum parts[kRows * kWarps];
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        known = over_lanes<Exponential, kWarp>(known);
        if (lane == 0) {
            parts[warp] = known;
        }
        __syncthreads();
        return over_lanes<Exponential, kWarp>(lane < kWarps ? parts[warp / kWarps * kWarps + lane] : nothing());
    }
}

// Of a slice, by a block of kBlock threads, each of which has kUnroll vectors in flight.
template <typename Exponential, typename T, int kBlock, int kUnroll, int kElements>
__device__ __forceinline__ ExponentialSum over_slice(const T* input, const Slice<kElements>& slice) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input + slice.aligned());
    ExponentialSum known = nothing();
    for (int64_t start = threadIdx.x; start < slice.vectors; start += kBlock * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                units[i].bits = from[start + i * kBlock];
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                add<Exponential, Unit, kElements>(known, units[i]);
            }
        }
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        Vector<T, 1> unit;
        unit.elements[0] = input[single];
        add<Exponential, Vector<T, 1>, 1>(known, unit);
    }
    return over_row<Exponential, kBlock, 1>(known);
}

// Keeps the sum of a block's part of a row, of which the block has number blockIdx.x among all parts of all rows.
__device__ __forceinline__ void keep_part(float* found, const ExponentialSum& known) {
    if (threadIdx.x == 0) {
        found[2 * blockIdx.x] = known.largest;
        found[2 * blockIdx.x + 1] = known.sum;
    }
}

// Of a row whose parts were kept, known to all threads of a warp. There are at most as many parts as a warp has threads.
template <typename Exponential>
__device__ __forceinline__ ExponentialSum over_parts(const float* found, int64_t row, int parts, int lane) {
    const float* const of_row = found + 2 * row * parts;
    const ExponentialSum part =
        lane < parts ? ExponentialSum{of_row[2 * lane], of_row[2 * lane + 1]} : nothing();
    return over_lanes<Exponential, kWarp>(part);
}

}  // namespace exponential_sum
