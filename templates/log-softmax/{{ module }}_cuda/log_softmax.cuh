// Logarithms of the softmax of rows. Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight in a row that is read twice. STREAM: whether what is not read again
// is marked so, and leaves the caches first.

#include "row_parts.cuh"

namespace logsoft {

using namespace row_parts;

// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// What is known of a row, or of a part of it: the largest value, and the sum of exp(value - largest). Where there is no
// value above minus infinity, the sum is that of exp(value), so zero: the difference would be NaN.
struct Known {
    float largest;
    float sum;
};

__device__ __forceinline__ Known nothing() { return {minus_infinity(), 0.0f}; }

// What exponents are relative to.
__device__ __forceinline__ float origin(float largest) { return largest == minus_infinity() ? 0.0f : largest; }

template <typename T, typename Unit, int kElements>
__device__ __forceinline__ void add(Known& known, const Unit& unit) {
    float largest = known.largest;
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        largest = fmaxf(largest, unit.get(j));
    }
    const float from = origin(largest);
    float sum = known.largest == largest ? known.sum : known.sum * exponential<T>(known.largest - from);
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        sum += exponential<T>(unit.get(j) - from);
    }
    known = {largest, sum};
}

// Over kLanes neighboring threads of a warp, known to all of them.
template <typename T, int kLanes>
__device__ __forceinline__ Known over_lanes(Known known) {
    float largest = known.largest;
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    float sum = known.sum * exponential<T>(known.largest - origin(largest));
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    return {largest, sum};
}

// Over the threads of a row, known to all of them and added in the same order in every run. kLanes threads have a row:
// a part of a warp, where kRows rows share a block; or the whole block, which has kLanes threads at most.
template <typename T, int kLanes, int kRows>
__device__ __forceinline__ Known over_row(Known known) {
    if constexpr (kLanes <= kWarp) {
        return over_lanes<T, kLanes>(known);
    } else {
        static_assert(kRows == 1);
        __shared__ Known parts[kLanes / kWarp];
        const int warps = blockDim.x / kWarp;
        const int warp = threadIdx.x / kWarp;
        const int lane = threadIdx.x % kWarp;
        known = over_lanes<T, kWarp>(known);
        if (lane == 0) {
            parts[warp] = known;
        }
        __syncthreads();
        return over_lanes<T, kWarp>(lane < warps ? parts[lane] : nothing());
    }
}

// What a block finds in a slice.
template <typename T, int kBlock, int kElements>
__device__ __forceinline__ Known read(const T* input, const Slice<kElements>& slice) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input + slice.aligned());
    Known known = nothing();
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
                add<T, Unit, kElements>(known, units[i]);
            }
        }
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        Vector<T, 1> unit;
        unit.elements[0] = input[single];
        add<T, Vector<T, 1>, 1>(known, unit);
    }
    return over_row<T, kBlock, 1>(known);
}

// hole: finish
// What the elements of a row become, once all of it is known. A row without a value above minus infinity, or with NaN
// or plus infinity, is NaN: the difference or the sum is.
template <typename T>
struct Finish {
    float largest;
    float logarithm;

    __device__ explicit Finish(Known known) : largest(known.largest), logarithm(logf(known.sum)) {}
    __device__ __forceinline__ float operator()(float value) const { return value - largest - logarithm; }
};
// end of hole: finish

template <typename T, typename Unit, int kElements>
__device__ __forceinline__ void finish_unit(Unit& unit, const Finish<T>& finish) {
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        unit.set(j, finish(unit.get(j)));
    }
}

template <typename T, int kBlock, int kElements>
__device__ __forceinline__ void write(
    T* out, const T* input, const Slice<kElements>& slice, const Finish<T>& finish) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input + slice.aligned());
    Bits* const to = reinterpret_cast<Bits*>(out + slice.aligned());
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
                finish_unit<T, Unit, kElements>(units[i], finish);
                store(to + start + i * kBlock, units[i].bits);
            }
        }
    }
    const int64_t single = slice.single(threadIdx.x);
    if (single >= 0) {
        from_float(finish(to_float(input[single])), out[single]);
    }
}

// Rows that their threads hold: kUnits vectors a thread in registers, kKept more in shared memory. Each thread reads
// what it wrote there itself, so no barrier guards it.
template <typename T, int kLanes, int kRows, int kElements, int kUnits, int kKept>
__global__ void __launch_bounds__(kLanes * kRows)
    held(T* out, const T* input, long long rows, int hidden) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    extern __shared__ uint4 memory[];
    Bits* const kept = reinterpret_cast<Bits*>(memory) + threadIdx.x;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + (kRows == 1 ? 0 : threadIdx.x / kLanes);
    const int lanes = kRows == 1 ? static_cast<int>(blockDim.x) : kLanes;
    const int lane = kRows == 1 ? static_cast<int>(threadIdx.x) : threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    Bits* const to = reinterpret_cast<Bits*>(out) + row * length;
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            held[i].bits = load(from + place);
        }
    }
    Known known = nothing();
    // Several loads are on their way before the first is waited for.
    constexpr int kBatch = kKept % 2 == 0 ? 2 : 1;
    for (int i = 0; i < kKept; i += kBatch) {
        Unit units[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
            const int place = lane + (kUnits + i + k) * lanes;
            if (place < length) {
                units[k].bits = load(from + place);
            }
        }
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
            if (lane + (kUnits + i + k) * lanes < length) {
                kept[(i + k) * lanes] = units[k].bits;
                add<T, Unit, kElements>(known, units[k]);
            }
        }
    }
    // The largest of all that a thread holds comes first, so that each value has one exponential here.
    float largest = known.largest;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                largest = fmaxf(largest, held[i].get(j));
            }
            forget(held[i].bits);
        }
    }
    const float begin = origin(largest);
    float sum = kKept > 0 ? known.sum * exponential<T>(known.largest - begin) : 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                sum += exponential<T>(held[i].get(j) - begin);
            }
            forget(held[i].bits);
        }
    }
    const Finish<T> finish(over_row<T, kLanes, kRows>({largest, sum}));
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            finish_unit<T, Unit, kElements>(held[i], finish);
            store(to + place, held[i].bits);
        }
    }
    for (int i = 0; i < kKept; ++i) {
        const int place = lane + (kUnits + i) * lanes;
        if (place < length) {
            Unit unit;
            unit.bits = kept[i * lanes];
            finish_unit<T, Unit, kElements>(unit, finish);
            store(to + place, unit.bits);
        }
    }
}

// Any row, by one block: once for what must be known, once more for the results.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock) read_twice(T* out, const T* input, long long hidden) {
    const Slice<kElements> slice = slice_of<kElements>(blockIdx.x, hidden, 0, 1);
    const Finish<T> finish(read<T, kBlock>(input, slice));
    write<T, kBlock>(out, input, slice, finish);
}

// A row by several blocks: what each finds in its part, and then, by as many, the results.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    read_parts(float* found, const T* input, long long hidden, int parts) {
    const Slice<kElements> slice = slice_of<kElements>(blockIdx.x / parts, hidden, blockIdx.x % parts, parts);
    const Known known = read<T, kBlock>(input, slice);
    if (threadIdx.x == 0) {
        found[2 * blockIdx.x] = known.largest;
        found[2 * blockIdx.x + 1] = known.sum;
    }
}

template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    write_parts(T* out, const T* input, const float* found, long long hidden, int parts) {
    const int64_t row = blockIdx.x / parts;
    // Every warp does this for itself; there are at most as many parts as a warp has threads.
    const int lane = threadIdx.x % kWarp;
    const float* const of_row = found + 2 * row * parts;
    const Known part = lane < parts ? Known{of_row[2 * lane], of_row[2 * lane + 1]} : nothing();
    const Finish<T> finish(over_lanes<T, kWarp>(part));
    write<T, kBlock>(out, input, slice_of<kElements>(row, hidden, blockIdx.x % parts, parts), finish);
}

}  // namespace logsoft
