// Rows as bytes, with a scale for each row.
// Owns: the largest size in a row, and the ways through a row, for any `Code`. Never: a kernel; rounds a value.
//
// A `Code` is made of the bits of the largest size in a row. It has the row's `scale`, and makes bytes of values: `one` of
// one value, `four` of four, the first in the lowest byte. UNROLL: how many vectors a thread has in flight in a row that
// is read twice.

#pragma once

#include "covered_slice.cuh"

namespace quantized_row {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

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
template <typename Code, int kUnits, int kLanes, typename Q, typename T>
__device__ __forceinline__ void held(Q* q, float* scale, const T* input, long long rows, int hidden) {
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
    const Code code(over_row<kLanes>(largest));
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

// Rows of any length, in vectors that begin where memory has them: up to kUnits vectors a thread. Threads have rows as in
// `held`. Elements beside a row are 0, so they are never the largest. The bytes of a vector begin where a word of as many does.
template <typename Code, int kUnits, int kLanes, typename Q, typename T>
__device__ __forceinline__ void shifted(Q* q, float* scale, const T* input, long long rows, int hidden) {
    using Covered = covered_slice::Slice<T, false, int>;
    using Unit = typename Covered::Unit;
    constexpr int kElements = Covered::kElements;
    using Bytes = typename Word<kElements>::Type;
    const int lanes = kLanes > kWarp ? blockDim.x : kLanes;
    const int64_t block = static_cast<int64_t>(blockIdx.x) * (kLanes > kWarp ? 1 : 128 / kLanes);
    const int64_t row = kLanes > kWarp ? block : block + threadIdx.x / kLanes;
    const int lane = kLanes > kWarp ? threadIdx.x : threadIdx.x % kLanes;
    const Covered slice(row * hidden, hidden);
    const int length = row < rows ? slice.vectors() : 0;
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            held[i] = slice.read(input, place, false);
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
    const Code code(over_row<kLanes>(largest));
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            const Bytes bytes = coded(code, held[i]);
            uint8_t* const to = reinterpret_cast<uint8_t*>(q) + slice.aligned + place * kElements;
            if (slice.is_whole(place)) {
                store(reinterpret_cast<Bytes*>(to), bytes);
            } else {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    if (slice.has(place * kElements + j)) {
                        to[j] = static_cast<uint8_t>(word(bytes, j / 4) >> (8 * (j % 4)));
                    }
                }
            }
        }
    }
    if (lane == 0 && row < rows) {
        scale[row] = code.scale;
    }
}

// Any row: for the largest size, and for the results.
template <typename Code, int kBlock, typename Q, typename T>
__device__ __forceinline__ void read_twice(Q* q, float* scale, const T* input, long long hidden) {
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
    const Code code(over_row<kBlock>(largest));
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

}  // namespace quantized_row
