// RMS normalisation on CUDA. Owns: the kernels and the choice among them. Never: allocates, synchronises, keeps state.
//
// The operation moves two bytes for every byte it computes on, so only memory traffic matters:
//   - a row is read once, 16 bytes per load, and stays packed in registers between the sum and the scaling;
//   - the loads of a thread are independent, so they are all in flight before the first is used;
//   - input and output are used once and are marked evict-first (ld/st.global.cs);
//   - the weight travels beside the row, but to shared memory, where it waits for the sum without taking registers: the
//     kernels need few enough that a multiprocessor is full of threads, and thus of loads in flight.
// A row too long for registers (over 64 KiB) or not aligned to 16 bytes is read twice; the second read mostly hits the
// L2 cache.

#include "rms_norm.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
constexpr int kVectorBytes = 16;
constexpr int kMaxVectorsInRegisters = 4096;
// What a block may have of shared memory without asking.
constexpr int kSharedBytesUnasked = 48 * 1024;

// 16 bytes of elements, as one load or store moves them.
template <typename T>
struct Vector {
    static constexpr int kElements = kVectorBytes / sizeof(T);
    uint4 bits;
};

// One element, for rows that cannot be moved by vectors.
template <typename T>
struct Scalar {
    T value;
};

__device__ __forceinline__ float2 unpack(uint32_t pair, __nv_bfloat16) {
    // bfloat16 is the upper half of a float32.
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

__device__ __forceinline__ float2 unpack(uint32_t pair, __half) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
}

__device__ __forceinline__ uint32_t pack(float2 value, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(value.x, value.y);
    return reinterpret_cast<const uint32_t&>(pair);
}

__device__ __forceinline__ uint32_t pack(float2 value, __half) {
    const __half2 pair = __floats2half2_rn(value.x, value.y);
    return reinterpret_cast<const uint32_t&>(pair);
}

// One 32-bit word of a vector: two half-precision elements or one float32.
template <typename T>
__device__ __forceinline__ float word_square_sum(uint32_t word) {
    const float2 value = unpack(word, T{});
    return value.x * value.x + value.y * value.y;
}

template <>
__device__ __forceinline__ float word_square_sum<float>(uint32_t word) {
    const float value = __uint_as_float(word);
    return value * value;
}

template <typename T>
__device__ __forceinline__ uint32_t word_scaled(uint32_t word, uint32_t weight, float scale) {
    const float2 value = unpack(word, T{});
    const float2 factor = unpack(weight, T{});
    return pack(make_float2(value.x * scale * factor.x, value.y * scale * factor.y), T{});
}

template <>
__device__ __forceinline__ uint32_t word_scaled<float>(uint32_t word, uint32_t weight, float scale) {
    return __float_as_uint(__uint_as_float(word) * scale * __uint_as_float(weight));
}

template <typename T>
__device__ __forceinline__ float square_sum(const Vector<T>& v) {
    return (word_square_sum<T>(v.bits.x) + word_square_sum<T>(v.bits.y)) +
           (word_square_sum<T>(v.bits.z) + word_square_sum<T>(v.bits.w));
}

template <typename T>
__device__ __forceinline__ Vector<T> scaled(const Vector<T>& v, const Vector<T>& weight, float scale) {
    return {make_uint4(word_scaled<T>(v.bits.x, weight.bits.x, scale), word_scaled<T>(v.bits.y, weight.bits.y, scale),
                       word_scaled<T>(v.bits.z, weight.bits.z, scale), word_scaled<T>(v.bits.w, weight.bits.w, scale))};
}

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) { return value; }
template <>
__device__ __forceinline__ __half from_float<__half>(float value) { return __float2half_rn(value); }
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }

template <typename T>
__device__ __forceinline__ float square_sum(const Scalar<T>& s) {
    return to_float(s.value) * to_float(s.value);
}

template <typename T>
__device__ __forceinline__ Scalar<T> scaled(const Scalar<T>& s, const Scalar<T>& weight, float scale) {
    return {from_float<T>(to_float(s.value) * scale * to_float(weight.value))};
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

// Sum over the block, known to all of its threads and added in the same order in every run. Called once per kernel.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float4 partial[kMaxThreads / kWarp / 4];
    float* const sums = reinterpret_cast<float*>(partial);
    const int warps = blockDim.x / kWarp;
    value = warp_sum(value);
    if (threadIdx.x % kWarp == 0) {
        sums[threadIdx.x / kWarp] = value;
    }
    // The last four may be incomplete; zeros fill them up.
    if (threadIdx.x < (-warps & 3)) {
        sums[warps + threadIdx.x] = 0.0f;
    }
    __syncthreads();
    float total = 0.0f;
    // Not unrolled: most blocks have a few warps only, and an unrolled loop was slower there.
#pragma unroll 1
    for (int warp = 0; warp < warps; warp += 4) {
        const float4 four = partial[warp / 4];
        total += (four.x + four.y) + (four.z + four.w);
    }
    return total;
}

// Starts a copy of 16 bytes from device to shared memory that takes no registers while it is under way. The thread that
// started copies sees all of them after finish_copies. GPUs before compute capability 8.0 copy at once.
__device__ __forceinline__ void start_copy(uint4* shared, const uint4* global) {
#if __CUDA_ARCH__ >= 800
    const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
#else
    *shared = *global;
#endif
}

__device__ __forceinline__ void finish_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Makes the compiler unpack a vector anew where it is used next, instead of keeping all of its elements as float32.
template <typename T>
__device__ __forceinline__ void keep_packed(Vector<T>& v) {
    asm volatile("" : "+r"(v.bits.x), "+r"(v.bits.y), "+r"(v.bits.z), "+r"(v.bits.w));
}

// What every kernel is told. Unit is what one load moves: Vector<T>, or Scalar<T> where alignment forbids vectors.
// Strides and length count units.
template <typename Unit>
struct Rows {
    Unit* out;
    const Unit* input;
    const Unit* weight;
    int64_t count;
    int64_t out_stride;
    int64_t input_stride;
    int64_t length;
    float inverse_hidden;
    float eps;
};

// Keeps a pointer as one value in registers. Otherwise its 64-bit arithmetic is repeated under every predicate.
template <typename Unit>
__device__ __forceinline__ Unit* pinned(Unit* pointer) {
    asm volatile("" : "+l"(pointer));
    return pointer;
}

constexpr int kMaxRowsPerBlock = 4;

// Registers per thread for up to two vectors per thread: as many as leave a multiprocessor full of threads (2048 in
// capabilities 8.0 and 9.0, 1024 in 7.5, mostly 1536 elsewhere; 10.0 holds 2048 too, but 32 registers would spill).
// Then for eight: two blocks of 512 threads, where that needs no spilling.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ / 10 == 90
constexpr int kRegistersForTwo = 32;
constexpr int kRegistersForEight = 64;
#elif __CUDA_ARCH__ < 800
constexpr int kRegistersForTwo = 64;
constexpr int kRegistersForEight = 128;
#else
constexpr int kRegistersForTwo = 40;
constexpr int kRegistersForEight = 80;
#endif

constexpr int max_registers(int units, bool whole) {
    return units <= 2 ? kRegistersForTwo : whole ? kRegistersForEight : 128;
}

// A row in the registers of one warp (kWarpPerRow; blockDim.y rows per block) or of one block. kWhole: every thread has
// kUnits vectors, so loads and stores go unchecked. Shared memory: kUnits vectors per thread.
template <typename T, int kUnits, bool kWarpPerRow, bool kWhole>
__global__ void __maxnreg__(max_registers(kUnits, kWhole)) rms_norm_in_registers(const Rows<Vector<T>> rows) {
    extern __shared__ uint4 staged_weight[];
    int64_t row = blockIdx.x;
    uint4* staged = staged_weight + threadIdx.x;
    if constexpr (kWarpPerRow) {
        row = row * blockDim.y + threadIdx.y;
        staged += threadIdx.y * kUnits * kWarp;
        if (row >= rows.count) {
            return;
        }
    }
    const int length = static_cast<int>(rows.length);
    const int stride = kWarpPerRow ? kWarp : blockDim.x;
    const Vector<T>* input = pinned(rows.input + row * rows.input_stride + threadIdx.x);
    Vector<T> held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int offset = i * stride;
        held[i].bits = kWhole || threadIdx.x + offset < length ? __ldcs(&input[offset].bits) : make_uint4(0, 0, 0, 0);
    }
    const Vector<T>* weight = pinned(rows.weight + threadIdx.x);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int offset = i * stride;
        // Checked even where kWhole: ptxas 13.0 moved unchecked copies behind the sum, so they waited for the row.
        if (threadIdx.x + offset < length) {
            start_copy(&staged[offset], &weight[offset].bits);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        sum += square_sum(held[i]);
        keep_packed(held[i]);
    }
    if constexpr (kWarpPerRow) {
        sum = warp_sum(sum);
    } else {
        sum = block_sum(sum);
    }
    const float scale = rsqrtf(sum * rows.inverse_hidden + rows.eps);
    Vector<T>* out = pinned(rows.out + row * rows.out_stride + threadIdx.x);
    finish_copies();
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int offset = i * stride;
        if (kWhole || threadIdx.x + offset < length) {
            __stcs(&out[offset].bits, scaled(held[i], {staged[offset]}, scale).bits);
        }
    }
}

// The fallback: one block per row, which reads the row once for the sum and once more for the scaling.
template <typename Unit>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_read_twice(const Rows<Unit> rows) {
    const int64_t row = blockIdx.x;
    const Unit* input = rows.input + row * rows.input_stride;
    float sum = 0.0f;
#pragma unroll 4
    for (int64_t column = threadIdx.x; column < rows.length; column += blockDim.x) {
        sum += square_sum(input[column]);
    }
    sum = block_sum(sum);
    const float scale = rsqrtf(sum * rows.inverse_hidden + rows.eps);
    Unit* out = rows.out + row * rows.out_stride;
#pragma unroll 4
    for (int64_t column = threadIdx.x; column < rows.length; column += blockDim.x) {
        out[column] = scaled(input[column], rows.weight[column], scale);
    }
}

// One launch, or several where the rows outnumber the 2^31 - 1 blocks of a grid.
template <typename Unit>
cudaError_t launch(void (*kernel)(Rows<Unit>), Rows<Unit> rows, dim3 threads, int shared_bytes, cudaStream_t stream) {
    const int64_t rows_per_block = threads.y;
    const int64_t rows_per_launch = 0x7fffffff * rows_per_block;
    const int64_t last = rows.count;
    for (int64_t first = 0; first < last; first += rows_per_launch) {
        rows.count = last - first < rows_per_launch ? last - first : rows_per_launch;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(static_cast<unsigned>((rows.count + rows_per_block - 1) / rows_per_block));
        config.blockDim = threads;
        config.dynamicSmemBytes = shared_bytes;
        config.stream = stream;
        if (const cudaError_t error = cudaLaunchKernelEx(&config, kernel, rows)) {
            return error;
        }
        rows.out += rows_per_launch * rows.out_stride;
        rows.input += rows_per_launch * rows.input_stride;
    }
    return cudaSuccess;
}

int round_up_to_warps(int64_t threads) {
    const int64_t rounded = (threads + kWarp - 1) / kWarp * kWarp;
    return static_cast<int>(rounded < kMaxThreads ? rounded : kMaxThreads);
}

template <typename T, int kUnits, bool kWarpPerRow>
cudaError_t launch_in_registers(const Rows<Vector<T>>& rows, dim3 threads, cudaStream_t stream) {
    // Two vectors per lane were slower unchecked than checked (hidden 512 in bfloat16 on an H200).
    constexpr bool kMayBeWhole = !(kWarpPerRow && kUnits == 2);
    const auto kernel = kMayBeWhole && rows.length == kUnits * static_cast<int64_t>(threads.x)
                            ? rms_norm_in_registers<T, kUnits, kWarpPerRow, kMayBeWhole>
                            : rms_norm_in_registers<T, kUnits, kWarpPerRow, false>;
    const int shared_bytes = kUnits * kVectorBytes * threads.x * threads.y;
    const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (shared_bytes > kSharedBytesUnasked && cudaFuncSetAttribute(kernel, attribute, shared_bytes) != cudaSuccess) {
        // The longest rows ask for a little more than the 64 KiB of compute capability 7.5.
        cudaGetLastError();
        return launch<Vector<T>>(rms_norm_read_twice<Vector<T>>, rows, dim3(kMaxThreads), 0, stream);
    }
    return launch<Vector<T>>(kernel, rows, threads, shared_bytes, stream);
}

template <typename T, int kUnits>
cudaError_t launch_block_per_row(const Rows<Vector<T>>& rows, cudaStream_t stream) {
    const dim3 threads(round_up_to_warps((rows.length + kUnits - 1) / kUnits));
    return launch_in_registers<T, kUnits, false>(rows, threads, stream);
}

template <typename T, int kUnits>
cudaError_t launch_warp_per_row(const Rows<Vector<T>>& rows, cudaStream_t stream) {
    // Few rows are spread over the multiprocessors; many share a block, which saves on block launches.
    const int rows_per_block = rows.count >= 2048 ? kMaxRowsPerBlock : 1;
    return launch_in_registers<T, kUnits, true>(rows, dim3(kWarp, rows_per_block), stream);
}

// The choice by row length in vectors, from timings on an H200 over rows of 128 to 32768 elements.
template <typename T>
cudaError_t launch_vectors(const Rows<Vector<T>>& rows, cudaStream_t stream) {
    if (rows.length <= kWarp) {
        return launch_warp_per_row<T, 1>(rows, stream);
    }
    if (rows.length <= 2 * kWarp) {
        return launch_warp_per_row<T, 2>(rows, stream);
    }
    if (rows.length <= kMaxThreads) {
        return launch_block_per_row<T, 2>(rows, stream);
    }
    if (rows.length <= kMaxVectorsInRegisters) {
        return launch_block_per_row<T, 8>(rows, stream);
    }
    return launch<Vector<T>>(rms_norm_read_twice<Vector<T>>, rows, dim3(kMaxThreads), 0, stream);
}

bool is_vector_multiple(uint64_t bytes) { return bytes % kVectorBytes == 0; }

template <typename T>
cudaError_t launch_typed(void* out, const void* input, const void* weight, int64_t rows, int64_t hidden,
                         int64_t out_row_stride, int64_t input_row_stride, float eps, cudaStream_t stream) {
    const float inverse_hidden = 1.0f / static_cast<float>(hidden);
    const bool vectors = is_vector_multiple(reinterpret_cast<uintptr_t>(out)) &&
                         is_vector_multiple(reinterpret_cast<uintptr_t>(input)) &&
                         is_vector_multiple(reinterpret_cast<uintptr_t>(weight)) &&
                         is_vector_multiple(hidden * sizeof(T)) && is_vector_multiple(out_row_stride * sizeof(T)) &&
                         is_vector_multiple(input_row_stride * sizeof(T));
    if (vectors) {
        using Unit = Vector<T>;
        constexpr int64_t n = Unit::kElements;
        return launch_vectors<T>({static_cast<Unit*>(out), static_cast<const Unit*>(input),
                                  static_cast<const Unit*>(weight), rows, out_row_stride / n, input_row_stride / n,
                                  hidden / n, inverse_hidden, eps},
                                 stream);
    }
    using Unit = Scalar<T>;
    const Rows<Unit> scalars = {static_cast<Unit*>(out), static_cast<const Unit*>(input),
                                static_cast<const Unit*>(weight), rows, out_row_stride, input_row_stride,
                                hidden, inverse_hidden, eps};
    const dim3 threads(round_up_to_warps((hidden + 3) / 4));
    return launch<Unit>(rms_norm_read_twice<Unit>, scalars, threads, 0, stream);
}

} // namespace

extern "C" cudaError_t rms_norm_cuda_launch(void* out, const void* input, const void* weight, int64_t rows,
                                            int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                            float eps, RmsNormDtype dtype, cudaStream_t stream) {
    if (rows <= 0 || hidden <= 0) {
        return cudaSuccess;
    }
    switch (dtype) {
    case RmsNormDtype::kFloat32:
        return launch_typed<float>(out, input, weight, rows, hidden, out_row_stride, input_row_stride, eps, stream);
    case RmsNormDtype::kFloat16:
        return launch_typed<__half>(out, input, weight, rows, hidden, out_row_stride, input_row_stride, eps, stream);
    case RmsNormDtype::kBFloat16:
        return launch_typed<__nv_bfloat16>(out, input, weight, rows, hidden, out_row_stride, input_row_stride, eps,
                                           stream);
    }
    return cudaErrorInvalidValue;
}
