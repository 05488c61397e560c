// Warps: shuffles, votes, scans; tensor cores by WMMA and by PTX; half, bfloat16 and 8-bit floats.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

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
    sum += __match_any_sync(0xffffffffu, x);
    sum += __shfl_up_sync(0xffffffffu, x, 3) + __shfl_down_sync(0xffffffffu, x, 5, 16);
    sum += __reduce_add_sync(0xffffffffu, x) + __reduce_max_sync(0xffffffffu, static_cast<unsigned>(x));
    out[threadIdx.x] = sum ^ active ^ __popc(__activemask()) ^ static_cast<unsigned>(__syncthreads_count(x > 1));
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

template <typename Pair>
__global__ void multiply_add(const Pair* a, const Pair* b, Pair* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = __hfma2(a[i], b[i], __hmax2(c[i], __hneg2(a[i])));
    }
}

template __global__ void multiply_add<__half2>(const __half2*, const __half2*, __half2*, int);
template __global__ void multiply_add<__nv_bfloat162>(const __nv_bfloat162*, const __nv_bfloat162*, __nv_bfloat162*,
                                                      int);

extern "C" __global__ void halves(const __half* a, const __nv_bfloat16* b, float* out, __half* sums, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const __half root = hsqrt(a[i]);
        const __nv_bfloat16 power = hexp(b[i]);
        out[i] = __half2float(root / a[i]) + __bfloat162float(power) + (a[i] > root ? 1.0f : 0.0f);
        atomicAdd(&sums[i & 7], root);
    }
}

extern "C" __global__ void eights(const __nv_fp8_e4m3* in, __nv_fp8_e5m2* out, float scale, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = __nv_fp8_e5m2(static_cast<float>(in[i]) * scale);
    }
}

template <typename T, typename Sum>
__global__ void tile_product(const T* a, const T* b, Sum* c, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sum;
    wmma::fill_fragment(sum, Sum(0));
    for (int at = 0; at < k; at += 16) {
        wmma::load_matrix_sync(left, a + at, k);
        wmma::load_matrix_sync(right, b + at, k);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

template __global__ void tile_product<__half, float>(const __half*, const __half*, float*, int);
template __global__ void tile_product<__nv_bfloat16, float>(const __nv_bfloat16*, const __nv_bfloat16*, float*, int);
template __global__ void tile_product<signed char, int>(const signed char*, const signed char*, int*, int);

extern "C" __global__ void ptx_product(const uint4* a, const uint2* b, float4* c, int steps) {
    __shared__ uint4 tile[32];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncwarp();
    float4 sum = c[threadIdx.x];
    for (int step = 0; step < steps; ++step) {
        uint4 left;
        const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&tile[(threadIdx.x + step) & 31]));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(left.x), "=r"(left.y), "=r"(left.z), "=r"(left.w)
                     : "r"(address));
        const uint2 right = b[step * 32 + threadIdx.x];
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum.x), "+f"(sum.y), "+f"(sum.z), "+f"(sum.w)
            : "r"(left.x), "r"(left.y), "r"(left.z), "r"(left.w), "r"(right.x), "r"(right.y));
    }
    c[threadIdx.x] = sum;
}
