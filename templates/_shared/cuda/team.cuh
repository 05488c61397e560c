// Threads that make one number of many elements together.
// Owns: which instance and which elements a thread has, and how the threads' numbers are joined, in the same order in every
// run. Never: what is added up.

#pragma once

#include "steps.cuh"

namespace team {

using vector::kWarp;

// An element and its place: what is left of a search.
struct Found {
    float value;
    long long place;
};

// Each has the number that changes nothing, and how two become one. Of equal elements the first one is found.
struct Total {
    static __device__ __forceinline__ float start(float) { return 0.0f; }
    static __device__ __forceinline__ long long start(long long) { return 0; }
    template <typename Value>
    static __device__ __forceinline__ Value of(Value a, Value b) {
        return a + b;
    }
};

struct Product {
    static __device__ __forceinline__ float start(float) { return 1.0f; }
    static __device__ __forceinline__ long long start(long long) { return 1; }
    template <typename Value>
    static __device__ __forceinline__ Value of(Value a, Value b) {
        return a * b;
    }
};

struct Largest {
    static __device__ __forceinline__ float start(float) { return -steps::infinity(); }
    static __device__ __forceinline__ long long start(long long) { return -0x7fffffffffffffffll - 1; }
    template <typename Value>
    static __device__ __forceinline__ Value of(Value a, Value b) {
        return steps::maximum(a, b);
    }
};

struct Smallest {
    static __device__ __forceinline__ float start(float) { return steps::infinity(); }
    static __device__ __forceinline__ long long start(long long) { return 0x7fffffffffffffffll; }
    template <typename Value>
    static __device__ __forceinline__ Value of(Value a, Value b) {
        return steps::minimum(a, b);
    }
};

struct PlaceOfLargest {
    static __device__ __forceinline__ Found start(Found) { return {-steps::infinity(), 0x7fffffffffffffffll}; }
    static __device__ __forceinline__ Found of(Found a, Found b) {
        const bool is_same = a.value == b.value || (steps::is_nan(a.value) && steps::is_nan(b.value));
        const bool is_first = is_same ? a.place < b.place : a.value > b.value || steps::is_nan(a.value);
        return is_first ? a : b;
    }
};

struct PlaceOfSmallest {
    static __device__ __forceinline__ Found start(Found) { return {steps::infinity(), 0x7fffffffffffffffll}; }
    static __device__ __forceinline__ Found of(Found a, Found b) {
        const bool is_same = a.value == b.value || (steps::is_nan(a.value) && steps::is_nan(b.value));
        const bool is_first = is_same ? a.place < b.place : a.value < b.value || steps::is_nan(a.value);
        return is_first ? a : b;
    }
};

template <typename Value>
__device__ __forceinline__ Value from_lane_xor(Value value, int offset) {
    return __shfl_xor_sync(0xffffffffu, value, offset);
}
__device__ __forceinline__ Found from_lane_xor(Found found, int offset) {
    return {from_lane_xor(found.value, offset), from_lane_xor(found.place, offset)};
}

// kLanes neighbors of a warp have an instance; with 0 the block has. With kAcross > 1 a block has as many neighboring
// instances: thread t has that of t % kAcross, so that neighbors read neighbors.
template <int kAcross, int kLanes>
struct Team {
    static __device__ __forceinline__ int lanes() {
        return kAcross > 1 ? static_cast<int>(blockDim.x) / kAcross
                           : (kLanes > 0 ? kLanes : static_cast<int>(blockDim.x));
    }
    static __device__ __forceinline__ int lane() {
        return kAcross > 1 ? static_cast<int>(threadIdx.x) / kAcross
                           : (kLanes > 0 ? static_cast<int>(threadIdx.x) % kLanes : static_cast<int>(threadIdx.x));
    }
    static __device__ __forceinline__ long long instance(long long block) {
        if constexpr (kAcross > 1) {
            return block * kAcross + threadIdx.x % kAcross;
        } else if constexpr (kLanes > 0) {
            return block * (blockDim.x / kLanes) + threadIdx.x / kLanes;
        } else {
            return block;
        }
    }

    // The numbers of all threads of an instance as one, known to all of them. Every thread of the block calls it.
    template <typename Join, typename Value>
    static __device__ __forceinline__ Value all(Value value) {
        if constexpr (kAcross > 1) {
            return across<Join>(value);
        } else {
            constexpr int kNeighbors = kLanes > 0 ? kLanes : kWarp;
#pragma unroll
            for (int offset = kNeighbors / 2; offset > 0; offset /= 2) {
                value = Join::of(value, from_lane_xor(value, offset));
            }
            if constexpr (kLanes == 0) {
                __shared__ Value of_warps[kWarp];
                const int lane = threadIdx.x % kWarp;
                __syncthreads();
                if (lane == 0) {
                    of_warps[threadIdx.x / kWarp] = value;
                }
                __syncthreads();
                const int warps = static_cast<int>(blockDim.x) / kWarp;
                value = lane < warps ? of_warps[lane] : Join::start(Value{});
#pragma unroll
                for (int offset = kWarp / 2; offset > 0; offset /= 2) {
                    value = Join::of(value, from_lane_xor(value, offset));
                }
            }
            return value;
        }
    }

private:
    template <typename Join, typename Value>
    static __device__ __forceinline__ Value across(Value value) {
        __shared__ Value of_threads[1024];
        __syncthreads();
        of_threads[threadIdx.x] = value;
        for (int half = lanes() / 2; half > 0; half /= 2) {
            __syncthreads();
            if (lane() < half) {
                of_threads[threadIdx.x] = Join::of(of_threads[threadIdx.x], of_threads[threadIdx.x + half * kAcross]);
            }
        }
        __syncthreads();
        return of_threads[threadIdx.x % kAcross];
    }
};

// The same, of any team.
template <typename Join, typename Team, typename Value>
__device__ __forceinline__ Value all(Value value) {
    return Team::template all<Join>(value);
}

// What the elements of a warp up to each thread's give together.
template <typename Join, int kLanes, typename Value>
__device__ __forceinline__ Value up_to_here(Value value, int lane) {
#pragma unroll
    for (int offset = 1; offset < kLanes; offset *= 2) {
        const Value before = __shfl_up_sync(0xffffffffu, value, offset, kLanes);
        value = lane >= offset ? Join::of(before, value) : value;
    }
    return value;
}

// The number of the last of kLanes neighbors.
template <int kLanes, typename Value>
__device__ __forceinline__ Value of_last(Value value) {
    if constexpr (kLanes > 1) {
        return __shfl_sync(0xffffffffu, value, kLanes - 1, kLanes);
    } else {
        return value;
    }
}

}  // namespace team
