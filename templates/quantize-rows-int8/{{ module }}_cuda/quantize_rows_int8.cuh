// Quantisation of rows to 8-bit integers, with a scale for each.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight in a row that is read twice. STREAM: whether what is not read again
// is marked so, and leaves the caches first.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace rowsint8 {

constexpr int kWarp = 32;
// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

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

// In which products of 8 bits and of T's are exact, and their difference.
template <int kBytes>
struct Decider;
template <>
struct Decider<2> {
    using Type = float;
};
template <>
struct Decider<4> {
    using Type = double;
};

// Turns the values of a row into bytes, given the bits of the largest size in it, as if the quotient were exact: one
// that lies halfway between two integers becomes the even one. The float32 quotient is off by 2^-16 at most; where it
// is nearer than 2^-14 to halfway, products decide that are exact in Wide.
template <typename T>
struct Coder {
    using Wide = typename Decider<sizeof(T)>::Type;
    float scale;
    // A power of two that keeps factor and products in range.
    float lift;
    float largest;
    float factor;

    __device__ explicit Coder(uint32_t bits) {
        const float found = __uint_as_float(bits);
        scale = found / 127.0f;
        lift = found < 0x1p-100f ? 0x1p100f : found > 0x1p100f ? 0x1p-100f : 1.0f;
        largest = found * lift;
        // No row of zeros has another value, and one that is not finite becomes zeros.
        factor = found > 0.0f && bits < 0x7f800000u ? 127.0f / largest : 0.0f;
    }
    // In the lowest byte; the others are anything.
    __device__ __forceinline__ uint32_t coded(float value) const {
        // Adding it rounds to an integer, which is then in the lowest bits.
        constexpr float kMagic = 12582912.0f;
        const float lifted = value * lift;
        const float quotient = lifted * factor;
        const float sum = quotient + kMagic;
        const float off = quotient - (sum - kMagic);
        if (fabsf(off) <= 0.5f - 0x1p-14f) {
            return __float_as_uint(sum);
        }
        return factor == 0.0f ? 0 : halfway(lifted, floorf(quotient));
    }
    // Of the integer below and the one above.
    __device__ __forceinline__ uint32_t halfway(float lifted, float below) const {
        const Wide over = Wide(254) * Wide(lifted) - Wide(2.0f * below + 1.0f) * Wide(largest);
        const int low = static_cast<int>(below);
        return static_cast<uint32_t>(low + (over > Wide(0) || (over == Wide(0) && low % 2 != 0) ? 1 : 0));
    }
    __device__ __forceinline__ uint32_t four(float a, float b, float c, float d) const {
        const uint32_t low = __byte_perm(coded(a), coded(b), 0x0040);
        const uint32_t high = __byte_perm(coded(c), coded(d), 0x0040);
        return __byte_perm(low, high, 0x5410);
    }
    __device__ __forceinline__ uint8_t one(float value) const { return static_cast<uint8_t>(coded(value)); }
};

// The larger of what was found and the size of a value, as bits: NaN is larger than anything.
__device__ __forceinline__ uint32_t larger(uint32_t found, float value) {
    const uint32_t size = __float_as_uint(value) & 0x7fffffffu;
    return found > size ? found : size;
}

// Over kLanes neighboring threads of a warp, known to all of them.
template <int kLanes>
__device__ __forceinline__ uint32_t over_lanes(uint32_t found) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, found, offset);
        found = found > other ? found : other;
    }
    return found;
}

// Over the threads of a row, known to all of them: a part of a warp, or all warps of a block.
template <int kLanes>
__device__ __forceinline__ uint32_t over_row(uint32_t found) {
    if constexpr (kLanes <= kWarp) {
        return over_lanes<kLanes>(found);
    } else {
        __shared__ uint32_t parts[kWarp];
        const int lane = threadIdx.x % kWarp;
        found = over_lanes<kWarp>(found);
        if (lane == 0) {
            parts[threadIdx.x / kWarp] = found;
        }
        __syncthreads();
        return over_lanes<kWarp>(lane < blockDim.x / kWarp ? parts[lane] : 0);
    }
}

// A vector of values as bytes.
template <typename T, int kElements, typename Code>
__device__ __forceinline__ typename Word<kElements>::Type coded(const Code& code, const Vector<T, kElements>& unit) {
    union {
        typename Word<kElements>::Type bits;
        uint32_t words[kElements / 4];
    } bytes;
#pragma unroll
    for (int j = 0; j < kElements; j += 4) {
        bytes.words[j / 4] = code.four(unit.get(j), unit.get(j + 1), unit.get(j + 2), unit.get(j + 3));
    }
    return bytes.bits;
}

// Rows that their threads hold: up to kUnits vectors a thread. kLanes threads have a row, or at most that many, which
// is all of a block, where it is more than a warp.
template <typename T, int kUnits, int kLanes>
__global__ void __launch_bounds__(kLanes > kWarp ? kLanes : 128)
    held(signed char* q, float* scale, const T* input, long long rows, int hidden) {
    constexpr int kElements = 16 / sizeof(T);
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    using Bytes = typename Word<kElements>::Type;
    const int lanes = kLanes > kWarp ? blockDim.x : kLanes;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * (kLanes > kWarp ? 1 : 128 / kLanes);
    const int64_t row = kLanes > kWarp ? first : first + threadIdx.x / kLanes;
    const int lane = kLanes > kWarp ? threadIdx.x : threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
            held[i].bits = load(from + lane + i * lanes);
        }
    }
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                largest = larger(largest, held[i].get(j));
            }
            forget(held[i].bits);
        }
    }
    const Coder<T> code(over_row<kLanes>(largest));
    Bytes* const to = reinterpret_cast<Bytes*>(q) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
            store(to + lane + i * lanes, coded(code, held[i]));
        }
    }
    if (lane == 0 && row < rows) {
        scale[row] = code.scale;
    }
}

// A row as vectors, which begin where addresses are multiples of theirs, and single elements around them.
template <int kElements>
struct Slice {
    int64_t first;
    int head;
    int64_t vectors;
    int tail;

    __device__ Slice(int64_t first, int64_t count) : first(first) {
        head = static_cast<int>((kElements - first % kElements) % kElements);
        head = head < count ? head : static_cast<int>(count);
        vectors = (count - head) / kElements;
        tail = static_cast<int>((count - head) % kElements);
    }
    __device__ int64_t aligned() const { return first + head; }
    // The single element that is this thread's, or -1.
    __device__ int64_t single(int thread) const {
        if (thread < head) {
            return first + thread;
        }
        return thread < head + tail ? aligned() + vectors * kElements + (thread - head) : -1;
    }
};

// Any row: for the largest size, and for the results.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock) read_twice(signed char* q, float* scale, const T* input, long long hidden) {
    constexpr int kElements = 16 / sizeof(T);
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    using Bytes = typename Word<kElements>::Type;
    const Slice<kElements> slice(blockIdx.x * hidden, hidden);
    const Bits* const from = reinterpret_cast<const Bits*>(input + slice.aligned());
    const int64_t single = slice.single(threadIdx.x);
    uint32_t largest = single < 0 ? 0 : larger(0, to_float(input[single]));
    for (int64_t start = threadIdx.x; start < slice.vectors; start += kBlock * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                units[i].bits = from[start + i * kBlock];
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    largest = larger(largest, units[i].get(j));
                }
            }
        }
    }
    const Coder<T> code(over_row<kBlock>(largest));
    Bytes* const to = reinterpret_cast<Bytes*>(q) + slice.aligned() / kElements;
    for (int64_t start = threadIdx.x; start < slice.vectors; start += kBlock * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                units[i].bits = load(from + start + i * kBlock);
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < slice.vectors) {
                store(to + start + i * kBlock, coded(code, units[i]));
            }
        }
    }
    if (single >= 0) {
        reinterpret_cast<uint8_t*>(q)[single] = code.one(to_float(input[single]));
    }
    if (threadIdx.x == 0) {
        scale[blockIdx.x] = code.scale;
    }
}

}  // namespace rowsint8
