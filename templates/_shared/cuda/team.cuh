// Threads that make one number of many elements together.
// Owns: which instance and which elements a thread has, and how the threads' numbers are joined, in the same order in every
// run. Never: what is added up.

#pragma once

#include "steps.cuh"

namespace team {

using vector::kWarp;

// An element and its place: what is left of a search.
template <typename Index>
struct Found {
    float value;
    Index place;
};
template <typename Index>
constexpr Index kNowhere = sizeof(Index) == 8 ? static_cast<Index>(0x7fffffffffffffffll) : static_cast<Index>(0x7fffffff);

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
    template <typename Index>
    static __device__ __forceinline__ Found<Index> start(Found<Index>) {
        return {-steps::infinity(), kNowhere<Index>};
    }
    template <typename Index>
    static __device__ __forceinline__ Found<Index> of(Found<Index> a, Found<Index> b) {
        const bool is_same = a.value == b.value || (steps::is_nan(a.value) && steps::is_nan(b.value));
        const bool is_first = is_same ? a.place < b.place : a.value > b.value || steps::is_nan(a.value);
        return is_first ? a : b;
    }
    // The same where `b` comes after everything that `a` was found among.
    template <typename Index>
    static __device__ __forceinline__ Found<Index> then(Found<Index> a, Found<Index> b) {
        const bool is_more = b.value > a.value || (steps::is_nan(b.value) && !steps::is_nan(a.value));
        return is_more || a.place == kNowhere<Index> ? b : a;
    }
};

struct PlaceOfSmallest {
    template <typename Index>
    static __device__ __forceinline__ Found<Index> start(Found<Index>) {
        return {steps::infinity(), kNowhere<Index>};
    }
    template <typename Index>
    static __device__ __forceinline__ Found<Index> of(Found<Index> a, Found<Index> b) {
        const bool is_same = a.value == b.value || (steps::is_nan(a.value) && steps::is_nan(b.value));
        const bool is_first = is_same ? a.place < b.place : a.value < b.value || steps::is_nan(a.value);
        return is_first ? a : b;
    }
    template <typename Index>
    static __device__ __forceinline__ Found<Index> then(Found<Index> a, Found<Index> b) {
        const bool is_less = b.value < a.value || (steps::is_nan(b.value) && !steps::is_nan(a.value));
        return is_less || a.place == kNowhere<Index> ? b : a;
    }
};

// Elements of which there are `count`, and the squares of their differences from their mean, added up.
struct alignas(16) Moments {
    float count;
    float mean;
    float squares;
};

// Squares of differences from a mean that is known at the end: an element at a time (Welford), or two parts as one (Chan,
// Golub and LeVeque). Neither takes a difference of large sums.
struct Squares {
    static __device__ __forceinline__ Moments start(float) { return {0.0f, 0.0f, 0.0f}; }
    static __device__ __forceinline__ Moments start(Moments) { return {0.0f, 0.0f, 0.0f}; }
    static __device__ __forceinline__ Moments of(Moments a, float value) {
        const float count = a.count + 1.0f;
        const float difference = value - a.mean;
        const float mean = a.mean + __fdividef(difference, count);
        return {count, mean, a.squares + difference * (value - mean)};
    }
    static __device__ __forceinline__ Moments of(Moments a, Moments b) {
        const float count = a.count + b.count;
        const float share = count > 0.0f ? b.count / count : 0.0f;
        const float difference = b.count > 0.0f ? b.mean - a.mean : 0.0f;
        return {count, a.mean + difference * share, a.squares + b.squares + difference * difference * (a.count * share)};
    }
};

__device__ __forceinline__ float mean_of(Moments found) {
    return found.count > 0.0f ? found.mean : steps::not_a_number();
}
__device__ __forceinline__ Moments moments_at(const float* from, long long place) {
    return {from[place * 3], from[place * 3 + 1], from[place * 3 + 2]};
}
__device__ __forceinline__ void put_moments(Moments found, float* to, long long place) {
    to[place * 3] = found.count;
    to[place * 3 + 1] = found.mean;
    to[place * 3 + 2] = found.squares;
}

template <typename Value>
__device__ __forceinline__ Value from_lane_xor(Value value, int offset) {
    return __shfl_xor_sync(0xffffffffu, value, offset);
}
template <typename Index>
__device__ __forceinline__ Found<Index> from_lane_xor(Found<Index> found, int offset) {
    return {from_lane_xor(found.value, offset), from_lane_xor(found.place, offset)};
}
__device__ __forceinline__ Moments from_lane_xor(Moments found, int offset) {
    return {from_lane_xor(found.count, offset), from_lane_xor(found.mean, offset), from_lane_xor(found.squares, offset)};
}

// The blocks of a cluster, which capability 9.0 and later have: they run at once, and write to each other's shared memory.
namespace cluster {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ int blocks() {
    unsigned number;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(number));
    return static_cast<int>(number);
}
__device__ __forceinline__ int block() {
    unsigned number;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(number));
    return static_cast<int>(number);
}
// Waits for all threads of the cluster; what they have written is there then.
__device__ __forceinline__ void wait() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// A place in shared memory, in that of another block.
template <typename Value>
__device__ __forceinline__ Value* of_block(Value* own, int block) {
    unsigned long long there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(reinterpret_cast<unsigned long long>(own)), "r"(block));
    return reinterpret_cast<Value*>(there);
}
#else
__device__ __forceinline__ int blocks() { return 1; }
__device__ __forceinline__ int block() { return 0; }
__device__ __forceinline__ void wait() {}
template <typename Value>
__device__ __forceinline__ Value* of_block(Value* own, int) {
    return own;
}
#endif
}  // namespace cluster

// In place of a number of lanes: the blocks of a cluster have an instance.
constexpr int kOfCluster = -1;

// kLanes neighbors of a warp have an instance; with 0 the block has, and with kOfCluster a cluster. With kAcross > 1 a block
// has as many neighboring instances: thread t has that of t % kAcross, so that neighbors read neighbors.
template <int kAcross, int kLanes>
struct Team {
    static constexpr bool kIsBlock = kLanes == 0;
    static constexpr bool kIsCluster = kLanes == kOfCluster;

    static __device__ __forceinline__ int lanes() {
        if constexpr (kIsCluster) {
            return cluster::blocks() * static_cast<int>(blockDim.x);
        } else if constexpr (kAcross > 1) {
            return static_cast<int>(blockDim.x) / kAcross;
        } else {
            return kLanes > 0 ? kLanes : static_cast<int>(blockDim.x);
        }
    }
    static __device__ __forceinline__ int lane() {
        const int thread = static_cast<int>(threadIdx.x);
        if constexpr (kIsCluster) {
            return cluster::block() * static_cast<int>(blockDim.x) + thread;
        } else if constexpr (kAcross > 1) {
            return thread / kAcross;
        } else {
            return kLanes > 0 ? thread % kLanes : thread;
        }
    }
    static __device__ __forceinline__ long long instance(long long block) {
        if constexpr (kIsCluster) {
            return block / cluster::blocks();
        } else if constexpr (kAcross > 1) {
            return block * kAcross + threadIdx.x % kAcross;
        } else if constexpr (kLanes > 0) {
            return block * (blockDim.x / kLanes) + threadIdx.x / kLanes;
        } else {
            return block;
        }
    }

    // The numbers of all threads of a row as one, known to all of them. Every thread of the block calls it.
    template <typename Join, typename Value>
    static __device__ __forceinline__ Value all(Value value) {
        constexpr int kNeighbors = kLanes > 0 ? kLanes : kWarp;
#pragma unroll
        for (int offset = kNeighbors / 2; offset > 0; offset /= 2) {
            value = Join::of(value, from_lane_xor(value, offset));
        }
        if constexpr (kLanes <= 0) {
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
        if constexpr (kIsCluster) {
            __shared__ Value of_blocks[kWarp];
            // Every block has begun, and has read what there was.
            cluster::wait();
            if (static_cast<int>(threadIdx.x) < cluster::blocks()) {
                *cluster::of_block(&of_blocks[cluster::block()], threadIdx.x) = value;
            }
            cluster::wait();
            value = of_blocks[0];
            for (int block = 1; block < cluster::blocks(); ++block) {
                value = Join::of(value, of_blocks[block]);
            }
        }
        return value;
    }
};

// The same, of any team.
template <typename Join, typename Team, typename Value>
__device__ __forceinline__ Value all(Value value) {
    return Team::template all<Join>(value);
}

// What the threads of a block have found of kElements neighboring columns each, where threads 32 apart have the same ones.
template <typename Join, int kBlock, int kElements, typename Value>
__device__ __forceinline__ void all_of_columns(Value (&values)[kElements]) {
    // As many columns at a time as shared memory has room for.
    constexpr int kRoom = 32768 / (kBlock * static_cast<int>(sizeof(Value)));
    constexpr int kAtOnce = kRoom < kElements ? kRoom : kElements;
    __shared__ Value of_threads[kAtOnce][kBlock];
#pragma unroll
    for (int begin = 0; begin < kElements; begin += kAtOnce) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            of_threads[k][threadIdx.x] = values[begin + k];
        }
        __syncthreads();
        for (int column = threadIdx.x; column < kAtOnce * kWarp; column += kBlock) {
            Value* const own = &of_threads[column / kWarp][column % kWarp];
            Value value = own[0];
            for (int warp = 1; warp < kBlock / kWarp; ++warp) {
                value = Join::of(value, own[warp * kWarp]);
            }
            own[0] = value;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            values[begin + k] = of_threads[k][threadIdx.x % kWarp];
        }
    }
}

// What the columns' threads before each one, 32 apart, have found.
template <typename Join, int kBlock, typename Value>
__device__ __forceinline__ Value before_in_column(Value value) {
    __shared__ Value of_threads[kBlock];
    of_threads[threadIdx.x] = value;
    __syncthreads();
    Value before = Join::start(Value{});
    for (int thread = threadIdx.x % kWarp; thread < static_cast<int>(threadIdx.x); thread += kWarp) {
        before = Join::of(before, of_threads[thread]);
    }
    return before;
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

// Makes of each element what all up to it give together, those of the threads before and `so_far` among them; the result is
// what all give. Every thread of the block calls it.
template <typename Join, typename Own, typename Value, int kElements>
__device__ __forceinline__ Value scan(Value (&values)[kElements], Value so_far) {
#pragma unroll
    for (int j = 1; j < kElements; ++j) {
        values[j] = Join::of(values[j - 1], values[j]);
    }
    const int lane = threadIdx.x % kWarp;
    const Value up_to = up_to_here<Join, kWarp>(values[kElements - 1], lane);
    const Value neighbor = __shfl_up_sync(0xffffffffu, up_to, 1);
    Value before = lane == 0 ? Join::start(Value{}) : neighbor;
    Value total = __shfl_sync(0xffffffffu, up_to, kWarp - 1);
    if constexpr (Own::kIsBlock) {
        __shared__ Value of_warps[kWarp];
        const int warp = threadIdx.x / kWarp;
        const int warps = static_cast<int>(blockDim.x) / kWarp;
        __syncthreads();
        if (lane == 0) {
            of_warps[warp] = total;
        }
        __syncthreads();
        const Value own = lane < warps ? of_warps[lane] : Join::start(Value{});
        const Value of_all = up_to_here<Join, kWarp>(own, lane);
        total = __shfl_sync(0xffffffffu, of_all, kWarp - 1);
        const Value of_others = __shfl_sync(0xffffffffu, of_all, warp > 0 ? warp - 1 : 0);
        before = warp > 0 ? Join::of(of_others, before) : before;
    }
    before = Join::of(so_far, before);
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        values[j] = Join::of(before, values[j]);
    }
    return Join::of(so_far, total);
}

}  // namespace team
