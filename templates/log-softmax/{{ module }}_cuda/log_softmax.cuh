// Logarithms of the softmax of rows. Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: vectors that a thread has in flight in a row that is read twice. STREAM: as in vector.cuh.

#include "covered_slice.cuh"
#include "exponential_sum.cuh"

namespace log_softmax {

using namespace exponential_sum;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// hole: finish
// Makes results of the elements of a row, once its sum is known. A row without a value above minus infinity, or with NaN or
// plus infinity, becomes NaN, because the difference or the sum does.
template <typename T>
struct Finish {
    float largest;
    float logarithm;

    __device__ explicit Finish(ExponentialSum known) : largest(known.largest), logarithm(logf(known.sum)) {}
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

// Writes the results of a slice.
template <typename T, int kBlock, int kElements>
__device__ __forceinline__ void write_slice(
    T* out, const T* input, const Slice<kElements>& slice, const Finish<T>& finish) {
    using Unit = Vector<T, kElements>;
    row_parts::write<T, kBlock, kUnroll>(
        out, input, slice, finish, [&](Unit& unit) { finish_unit<T, Unit, kElements>(unit, finish); });
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
    ExponentialSum known = nothing();
    // Two loads are issued before the first is waited for.
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
                add<Exponential<T>, Unit, kElements>(known, units[k]);
            }
        }
    }
    // A thread's largest value is found first, so that each value needs one exponential.
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
    const Finish<T> finish(over_row<Exponential<T>, kLanes, kRows>({largest, sum}));
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

// Rows of any length, in vectors that begin where memory has them: kUnits of them a thread, at most. Elements beside the row
// are minus infinity, so they add nothing to its sum.
template <typename T, int kMost, int kUnits>
__global__ void __launch_bounds__(kMost) shifted(T* out, const T* input, int hidden) {
    using Covered = covered_slice::Slice<T, false, int>;
    using Unit = typename Covered::Unit;
    constexpr int kElements = Covered::kElements;
    const Covered row(static_cast<int64_t>(blockIdx.x) * hidden, hidden);
    const int length = row.vectors();
    const int lanes = static_cast<int>(blockDim.x);
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            held[i] = row.read(input, place, false, minus_infinity());
        }
    }
    float largest = minus_infinity();
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (threadIdx.x + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                largest = fmaxf(largest, held[i].get(j));
            }
            forget(held[i].bits);
        }
    }
    const float begin = origin(largest);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (threadIdx.x + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                sum += exponential<T>(held[i].get(j) - begin);
            }
            forget(held[i].bits);
        }
    }
    const Finish<T> finish(over_row<Exponential<T>, kMost, 1>({largest, sum}));
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            finish_unit<T, Unit, kElements>(held[i], finish);
            row.write(out, place, held[i]);
        }
    }
}

// Any row, by one block, which reads it once for the sum and once more for the results.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock) read_twice(T* out, const T* input, long long hidden) {
    const Slice<kElements> slice = slice_of<kElements>(blockIdx.x, hidden, 0, 1);
    const Finish<T> finish(over_slice<Exponential<T>, T, kBlock, kUnroll>(input, slice));
    write_slice<T, kBlock>(out, input, slice, finish);
}

// A row by several blocks: `read_parts` finds the sum of each part, `write_parts` writes the results.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    read_parts(float* found, const T* input, long long hidden, int parts) {
    const Slice<kElements> slice = slice_of<kElements>(blockIdx.x / parts, hidden, blockIdx.x % parts, parts);
    keep_part(found, over_slice<Exponential<T>, T, kBlock, kUnroll>(input, slice));
}

template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    write_parts(T* out, const T* input, const float* found, long long hidden, int parts) {
    const int64_t row = blockIdx.x / parts;
    const Finish<T> finish(over_parts<Exponential<T>>(found, row, parts, threadIdx.x % kWarp));
    write_slice<T, kBlock>(out, input, slice_of<kElements>(row, hidden, blockIdx.x % parts, parts), finish);
}

}  // namespace log_softmax
