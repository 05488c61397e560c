// Threads that work together: shuffles, votes, reductions, cooperative groups.
#include <cooperative_groups.h>

namespace groups = cooperative_groups;

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

extern "C" __global__ void block_sum(const float* in, float* out, int n) {
    __shared__ float sums[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += in[i];
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) {
            atomicAdd(out, sum);
        }
    }
}

extern "C" __global__ void votes(const int* in, unsigned* out) {
    const int x = in[threadIdx.x];
    const unsigned active = __ballot_sync(0xffffffffu, x > 0);
    unsigned sum = __any_sync(0xffffffffu, x == 3) + 2 * __all_sync(0xffffffffu, x < 100);
    sum += __match_any_sync(0xffffffffu, x) + __shfl_up_sync(0xffffffffu, x, 3) + __shfl_down_sync(0xffffffffu, x, 5, 16);
    sum += __reduce_add_sync(0xffffffffu, x) + __reduce_max_sync(0xffffffffu, static_cast<unsigned>(x));
    out[threadIdx.x] = sum ^ active ^ __popc(__activemask()) ^ static_cast<unsigned>(__syncthreads_count(x > 1));
}

extern "C" __global__ void tiles(const float* in, float* out, int n) {
    const groups::thread_block block = groups::this_thread_block();
    const groups::thread_block_tile<16> tile = groups::tiled_partition<16>(block);
    const int i = block.group_index().x * block.size() + block.thread_rank();
    const float x = i < n ? in[i] : 0.0f;
    float sum = x;
    float largest = x;
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) {
        sum += tile.shfl_down(sum, offset);
        largest = fmaxf(largest, tile.shfl_xor(largest, offset));
    }
    const auto here = groups::coalesced_threads();
    if (tile.thread_rank() == 0 && i < n) {
        out[i / 16] = sum / largest + here.size() + tile.shfl(x, 3);
    }
    block.sync();
}

template <typename T, int kItems>
__global__ void inclusive_scan(const T* in, T* out) {
    __shared__ T totals[32];
    T held[kItems];
    T sum = T(0);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
        sum += in[threadIdx.x * kItems + item];
        held[item] = sum;
    }
    T before = sum;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const T other = __shfl_up_sync(0xffffffffu, before, offset);
        before += threadIdx.x % 32 >= offset ? other : T(0);
    }
    if (threadIdx.x % 32 == 31) {
        totals[threadIdx.x / 32] = before;
    }
    __syncthreads();
    T base = before - sum;
    for (int warp = 0; warp < threadIdx.x / 32; ++warp) {
        base += totals[warp];
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
        out[threadIdx.x * kItems + item] = held[item] + base;
    }
}

template __global__ void inclusive_scan<int, 4>(const int*, int*);
template __global__ void inclusive_scan<float, 8>(const float*, float*);
template __global__ void inclusive_scan<double, 2>(const double*, double*);
