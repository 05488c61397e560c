// Root-mean-square normalisation.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many elements of a row that is not held a thread has in flight. STREAM: whether what is not read again is
// marked so, and leaves the caches first.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace rms {

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

// Bits of which the compiler knows nothing any more. It would keep values as float once they were converted, in twice
// the registers; so they are converted again.
__device__ __forceinline__ void forget(uint32_t& bits) { asm volatile("" : "+r"(bits)); }
__device__ __forceinline__ void forget(uint2& bits) {
    forget(bits.x);
    forget(bits.y);
}
__device__ __forceinline__ void forget(uint4& bits) {
    forget(bits.x);
    forget(bits.y);
    forget(bits.z);
    forget(bits.w);
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

// Whether registers are left for what every row has in common: the weight is then on the way while a row is summed.
template <typename T, int kElements, int kUnits>
constexpr bool kEarly = kUnits * kElements * sizeof(T) <= 64;

// A row that its threads hold. kWhole: it has kUnits vectors for each of them, so that none has to ask where it ends.
template <typename T, int kLanes, int kRows, int kElements, int kUnits, bool kWhole>
__device__ __forceinline__ void
held_row(T* out, const T* input, const T* weight, int64_t row, int length, int lane, int lanes, int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    const Bits* const weights = reinterpret_cast<const Bits*>(weight);
    Unit held[kUnits];
    Unit by[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (kWhole || place < length) {
            held[i].bits = load(from + place);
        }
    }
    if constexpr (kEarly<T, kElements, kUnits>) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (kWhole || place < length) {
                by[i].bits = weights[place];
            }
        }
    }
    const float part = 1.0f / hidden;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (kWhole || lane + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = held[i].get(j);
                squares += value * value;
            }
            forget(held[i].bits);
        }
    }
    const float scale = rsqrtf(row_sum<kLanes, kRows, kWhole>(squares) * part + eps);
    Bits* const to = reinterpret_cast<Bits*>(out) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (kWhole || place < length) {
            if constexpr (!kEarly<T, kElements, kUnits>) {
                by[i].bits = weights[place];
            }
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                held[i].set(j, scaled(held[i].get(j), scale, by[i].get(j)));
            }
            store(to + place, held[i].bits);
        }
    }
}

// Rows that their threads hold: kUnits vectors a thread, at most.
template <typename T, int kLanes, int kRows, int kElements, int kUnits>
__global__ void __launch_bounds__(kLanes * kRows)
    held(T* out, const T* input, const T* weight, long long rows, int hidden, float eps) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + (kRows == 1 ? 0 : threadIdx.x / kLanes);
    const int lanes = kRows == 1 ? static_cast<int>(blockDim.x) : kLanes;
    const int lane = kRows == 1 ? static_cast<int>(threadIdx.x) : threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    if constexpr (kRows == 1 && kEarly<T, kElements, kUnits>) {
        if (length == lanes * kUnits) {
            held_row<T, kLanes, kRows, kElements, kUnits, true>(
                out, input, weight, row, length, lane, lanes, hidden, eps);
            return;
        }
    }
    held_row<T, kLanes, kRows, kElements, kUnits, false>(
        out, input, weight, row, length, lane, lanes, hidden, eps);
}

// As `held`, for rows that a block has to itself, but with fewer blocks than rows: each keeps its part of the weight,
// and the next row is on its way while this one is summed. Sums lie in one of two places by turns, so that no barrier
// guards them.
template <typename T, int kLanes, int kElements, int kUnits>
__global__ void __launch_bounds__(kLanes)
    held_in_turns(T* out, const T* input, const T* weight, long long rows, int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int lanes = static_cast<int>(blockDim.x);
    const int lane = static_cast<int>(threadIdx.x);
    const int length = hidden / kElements;
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(out);
    Unit by[kUnits];
    Unit next[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            next[i].bits = load(from + static_cast<int64_t>(blockIdx.x) * length + place);
            by[i].bits = reinterpret_cast<const Bits*>(weight)[place];
        }
    }
    bool odd = false;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        Unit held[kUnits];
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
                held[i].bits = next[i].bits;
                if (row + gridDim.x < rows) {
                    next[i].bits = load(from + (row + gridDim.x) * length + place);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            if (lane + i * lanes < length) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const float value = held[i].get(j);
                    squares += value * value;
                }
                forget(held[i].bits);
            }
        }
        const float all = odd ? row_sum<kLanes, 1, 1>(squares) : row_sum<kLanes, 1, 0>(squares);
        odd = !odd;
        const float scale = rsqrtf(all / hidden + eps);
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    held[i].set(j, scaled(held[i].get(j), scale, by[i].get(j)));
                }
                store(to + row * length + place, held[i].bits);
                forget(by[i].bits);
            }
        }
    }
}

// Any row: once for the sum of squares, and once more for the results.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    read_twice(T* out, const T* input, const T* weight, long long hidden, float eps) {
    const T* const from = input + blockIdx.x * hidden;
    float squares = 0.0f;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = to_float(from[column]);
        squares += value * value;
    }
    const float scale = rsqrtf(row_sum<kBlock, 1, 0>(squares) / hidden + eps);
    T* const to = out + blockIdx.x * hidden;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        from_float(scaled(to_float(from[column]), scale, to_float(weight[column])), to[column]);
    }
}

}  // namespace rms
