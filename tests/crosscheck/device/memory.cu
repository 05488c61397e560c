// Memory: shared (static and dynamic), constant, local, read-only, vectors, asynchronous copies, atomics and fences.
#include <cuda_pipeline.h>

// No constant of the host at namespace scope: NVRTC makes a variable of it, which moves the addresses of the others.
__constant__ float weights[64];
__device__ unsigned long long counter;
__device__ int table[4] = {3, 1, 4, 1};

extern "C" __global__ void transpose(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    constexpr int kTile = 32;
    __shared__ float tile[kTile][kTile + 1];
    const int x = blockIdx.x * kTile + threadIdx.x;
    const int y = blockIdx.y * kTile + threadIdx.y;
#pragma unroll
    for (int step = 0; step < kTile; step += 8) {
        if (x < columns && y + step < rows) {
            tile[threadIdx.y + step][threadIdx.x] = in[(y + step) * columns + x];
        }
    }
    __syncthreads();
    const int row = blockIdx.x * kTile + threadIdx.y;
    const int column = blockIdx.y * kTile + threadIdx.x;
#pragma unroll
    for (int step = 0; step < kTile; step += 8) {
        if (row + step < columns && column < rows) {
            out[(row + step) * rows + column] = tile[threadIdx.x][threadIdx.y + step];
        }
    }
}

extern "C" __global__ void stencil(const float* in, float* out, int n) {
    extern __shared__ float line[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    line[threadIdx.x + 1] = i < n ? in[i] : 0.0f;
    if (threadIdx.x == 0) {
        line[0] = i > 0 ? in[i - 1] : 0.0f;
        line[blockDim.x + 1] = i + blockDim.x < n ? in[i + blockDim.x] : 0.0f;
    }
    __syncthreads();
    if (i < n) {
        const float* at = &line[threadIdx.x];
        out[i] = at[0] * weights[0] + at[1] * weights[1] + at[2] * weights[2];
    }
}

extern "C" __global__ void local_array(const int* order, float* out, int n) {
    float held[32];
    for (int i = 0; i < 32; ++i) {
        held[i] = weights[(i * 5 + threadIdx.x) % 64];
    }
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        const int at = order[i] & 31;
        sum += held[at];
        held[at ^ 1] = sum;
    }
    out[threadIdx.x] = sum + table[n & 3];
}

extern "C" __global__ void __launch_bounds__(1024, 2) many_registers(const float4* in, float4* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 held[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        held[k] = __ldg(&in[i + k * n]);
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        const float4 a = held[k];
        const float4 b = held[(k * 7 + 3) % 16];
        __stcs(&out[i + k * n], make_float4(a.x * b.y, a.y * b.z, a.z * b.w, a.w * b.x));
    }
}

extern "C" __global__ void copies(const float4* in, float4* out, int tiles) {
    __shared__ float4 stage[2][128];
    __pipeline_memcpy_async(&stage[0][threadIdx.x], &in[threadIdx.x], sizeof(float4));
    __pipeline_commit();
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
            const float4* next = &in[(tile + 1) * 128 + threadIdx.x];
            __pipeline_memcpy_async(&stage[(tile + 1) & 1][threadIdx.x], next, sizeof(float4));
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        const float4 other = stage[tile & 1][127 - threadIdx.x];
        out[tile * 128 + threadIdx.x] = make_float4(other.w, other.z, other.y, other.x);
        __syncthreads();
    }
}

extern "C" __global__ void atomics(int* ints, float* floats, double* doubles, unsigned long long* longs, int n) {
    __shared__ int histogram[64];
    if (threadIdx.x < 64) {
        histogram[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        atomicAdd(&histogram[ints[i] & 63], 1);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        atomicMax(&ints[threadIdx.x], histogram[threadIdx.x]);
        atomicAdd(&floats[threadIdx.x], 0.5f);
        atomicAdd(&doubles[threadIdx.x], 0.25);
        atomicOr(&longs[threadIdx.x], 1ull << threadIdx.x);
        unsigned long long seen = longs[0];
        unsigned long long before;
        do {
            before = seen;
            seen = atomicCAS(&longs[0], before, before * 3 + 1);
        } while (seen != before);
        __threadfence();
        atomicAdd_system(&counter, 1ull);
        atomicExch_block(&ints[64], 7);
    }
}

extern "C" __global__ void misaligned(const char* in, long long* out, int n) {
    struct __align__(4) Packed {
        short a;
        char b;
        int c;
    };
    const Packed* values = reinterpret_cast<const Packed*>(in);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = values[i].a + values[i].b * 256ll + values[i].c * 65536ll;
    }
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters(int* out) {
    __shared__ int mine;
    mine = threadIdx.x;
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&mine));
    unsigned other;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(address), "r"(1));
    int value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(other) : "memory");
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
#else
extern "C" __global__ void clusters(int* out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = 0;
}
#endif
