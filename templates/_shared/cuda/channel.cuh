// Channels, or groups of them, whose elements lie one after the other: as vectors, and what is known of their parts.
// Owns: what kernels of channels have in common. Never: a kernel.
//
// UNROLL: how many vectors a thread has in flight of channels that are not held.

#pragma once

#include "covered_slice.cuh"

namespace channel {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// A part of a group.
template <typename T, bool kEven>
using Slice = covered_slice::Slice<T, kEven, int>;

// Sum over the threads of a group of channels, known to all of them and added in the same order in every run: a part of a warp, or
// all warps of a block. Each use in a kernel has a number of its own, and so memory of its own: no barrier is needed
// between them.
template <int kLanes, int kUse>
__device__ __forceinline__ float part_sum(float value) {
    if constexpr (kLanes <= kWarp) {
        return lanes_sum<kLanes>(value);
    } else {
        __shared__ float sums[kWarp];
        const int lane = threadIdx.x % kWarp;
        value = lanes_sum<kWarp>(value);
        if (lane == 0) {
            sums[threadIdx.x / kWarp] = value;
        }
        __syncthreads();
        return lanes_sum<kWarp>(lane < blockDim.x / kWarp ? sums[lane] : 0.0f);
    }
}

// What is known of some elements: how many, their mean, and the sum of the squares of their deviations from it.
struct Known {
    float count;
    float mean;
    float squares;
};

// Of both: Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979).
__device__ __forceinline__ Known joined(const Known& one, const Known& other) {
    if (other.count == 0.0f) {
        return one;
    }
    const float count = one.count + other.count;
    const float share = __fdividef(other.count, count);
    const float apart = other.mean - one.mean;
    return {count, one.count == 0.0f ? other.mean : one.mean + apart * share,
            one.squares + other.squares + (one.count == 0.0f ? 0.0f : apart * apart * (one.count * share))};
}

// Over a warp, in its first thread.
__device__ __forceinline__ Known over_warp(Known known) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        const Known other = {__shfl_down_sync(0xffffffffu, known.count, offset),
                             __shfl_down_sync(0xffffffffu, known.mean, offset),
                             __shfl_down_sync(0xffffffffu, known.squares, offset)};
        known = joined(known, other);
    }
    return known;
}

// Over a block, known to all of it and joined in the same order in every run.
__device__ __forceinline__ Known over_block(Known known) {
    __shared__ Known parts[kWarp];
    __shared__ Known all;
    const int lane = threadIdx.x % kWarp;
    known = over_warp(known);
    if (lane == 0) {
        parts[threadIdx.x / kWarp] = known;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        known = over_warp(lane < blockDim.x / kWarp ? parts[lane] : Known{0.0f, 0.0f, 0.0f});
        if (lane == 0) {
            all = known;
        }
    }
    __syncthreads();
    return all;
}

// How the elements of a group are divided: whole vectors to each block, what is left to the last ones.
__device__ __forceinline__ int share_of(int length, int parts) { return ((length + parts - 1) / parts + 7) / 8 * 8; }
__device__ __forceinline__ int begin_of(int length, int parts, int part) {
    const int64_t begin = static_cast<int64_t>(share_of(length, parts)) * part;
    return static_cast<int>(begin < length ? begin : length);
}

// What is known of each part. Deviations are from the mean of what a thread has in its registers, and then joined.
template <typename T, int kBlock, bool kEven>
__device__ __forceinline__ void find_parts(float* found, const T* input, int length, int parts) {
    using Unit = typename Slice<T, kEven>::Unit;
    const int64_t row = blockIdx.x / static_cast<unsigned>(parts);
    const int part = static_cast<int>(blockIdx.x % static_cast<unsigned>(parts));
    const int begin = begin_of(length, parts, part);
    const Slice<T, kEven> slice(row * length + begin, begin_of(length, parts, part + 1) - begin);
    const int vectors = begin < length ? slice.vectors() : 0;
    Known known = {0.0f, 0.0f, 0.0f};
    for (int start = threadIdx.x; start < vectors; start += kBlock * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < vectors) {
                units[i] = slice.read(input, start + i * kBlock, true);
            }
        }
        int count = 0;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < vectors) {
                count += slice.count(start + i * kBlock);
                sum += units[i].sum();
                forget(units[i].bits);
            }
        }
        const float mean = sum / count;
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < vectors) {
                squares += slice.squares(units[i], start + i * kBlock, mean);
            }
        }
        known = joined(known, Known{static_cast<float>(count), mean, squares});
    }
    known = over_block(known);
    if (threadIdx.x == 0) {
        found[2 * static_cast<int64_t>(blockIdx.x)] = known.mean;
        found[2 * static_cast<int64_t>(blockIdx.x) + 1] = known.squares;
    }
}

}  // namespace channel
