// Adds a residual in place, then RMS normalisation.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many elements of a row that is not held a thread has in flight. STREAM: whether what is not read again is
// marked so, and leaves the caches first.
//
// `sum` is the residual's memory. Each thread writes there what itself has read before, and nobody else reads.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace addrms {

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

template <typename Bits>
__device__ __forceinline__ void store(Bits* to, Bits bits) {
#if STREAM
    __stcs(to, bits);
#else
    *to = bits;
#endif
}

// hole: scaling
// What an element of the sum becomes, given the row's scale, 1 / root mean square, and the element's weight.
__device__ __forceinline__ float scaled(float value, float scale, float weight) { return value * scale * weight; }
// end of hole: scaling

// Sum over kLanes neighboring threads of a warp, known to all of them.
template <int kLanes>
__device__ __forceinline__ float lanes_sum(float value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

// Sum over the threads of a row, known to all of them and added in the same order in every run. kLanes threads have a
// row: a part of a warp, where kRows rows share a block; or the whole block, which has kLanes threads at most. Each use in
// a kernel has a number of its own, and so memory of its own: no barrier is needed between them.
template <int kLanes, int kRows, int kUse>
__device__ __forceinline__ float row_sum(float value) {
    if constexpr (kLanes <= kWarp) {
        return lanes_sum<kLanes>(value);
    } else {
        static_assert(kRows == 1);
        __shared__ float sums[kLanes / kWarp];
        const int warps = blockDim.x / kWarp;
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        value = lanes_sum<kWarp>(value);
        if (lane == 0) {
            sums[warp] = value;
        }
        __syncthreads();
        return lanes_sum<kWarp>(lane < warps ? sums[lane] : 0.0f);
    }
}

// Rows that their threads hold, summed: kUnits vectors a thread, as float, so that a result is rounded once.
template <typename T, int kLanes, int kRows, int kElements, int kUnits>
__global__ void __launch_bounds__(kLanes * kRows)
    held(T* out, T* sum, const T* input, const T* weight, long long rows, int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + (kRows == 1 ? 0 : threadIdx.x / kLanes);
    const int lanes = kRows == 1 ? static_cast<int>(blockDim.x) : kLanes;
    const int lane = kRows == 1 ? static_cast<int>(threadIdx.x) : threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    Bits* const residual = reinterpret_cast<Bits*>(sum) + row * length;
    Unit inputs[kUnits];
    Unit residuals[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            inputs[i].bits = load(from + place);
            residuals[i].bits = load(residual + place);
        }
    }
    float held[kUnits][kElements];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = inputs[i].get(j) + residuals[i].get(j);
                held[i][j] = value;
                squares += value * value;
                residuals[i].set(j, value);
            }
            store(residual + place, residuals[i].bits);
        }
    }
    const float scale = rsqrtf(row_sum<kLanes, kRows, 0>(squares) / hidden + eps);
    const Bits* const weights = reinterpret_cast<const Bits*>(weight);
    Bits* const to = reinterpret_cast<Bits*>(out) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            Unit unit;
            unit.bits = weights[place];
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                unit.set(j, scaled(held[i][j], scale, unit.get(j)));
            }
            store(to + place, unit.bits);
        }
    }
}

// Any row: once for the sum of squares; once more for the results, and only then the residual is overwritten.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    read_twice(T* out, T* sum, const T* input, const T* weight, long long hidden, float eps) {
    const T* const from = input + blockIdx.x * hidden;
    T* const residual = sum + blockIdx.x * hidden;
    float squares = 0.0f;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = to_float(from[column]) + to_float(residual[column]);
        squares += value * value;
    }
    const float scale = rsqrtf(row_sum<kBlock, 1, 0>(squares) / hidden + eps);
    T* const to = out + blockIdx.x * hidden;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = to_float(from[column]) + to_float(residual[column]);
        from_float(value, residual[column]);
        from_float(scaled(value, scale, to_float(weight[column])), to[column]);
    }
}

}  // namespace addrms
