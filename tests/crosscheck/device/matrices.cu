// Narrow numbers and tensor cores: half, bfloat16, 8-bit floats, WMMA, and instructions written as PTX.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

template <typename Pair>
__global__ void multiply_add(const Pair* a, const Pair* b, Pair* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = __hfma2(a[i], b[i], __hmax2(c[i], __hneg2(a[i])));
    }
}

template __global__ void multiply_add<__half2>(const __half2*, const __half2*, __half2*, int);
template __global__ void multiply_add<__nv_bfloat162>(const __nv_bfloat162*, const __nv_bfloat162*, __nv_bfloat162*, int);

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
