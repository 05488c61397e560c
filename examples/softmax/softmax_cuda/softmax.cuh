// Softmax of rows. Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: vectors that a thread has in flight in a row that is read twice. STREAM: as in vector.cuh.

#include "covered_slice.cuh"
#include "exponential_sum.cuh"

namespace softmax {

using namespace exponential_sum;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// The exponential with the precision that the result's dtype needs.
template <typename T>
struct QuickExponential {
    static __device__ __forceinline__ float of(float value) {
        if constexpr (sizeof(T) == 4) {
            return expf(value);
        } else {
            // As __expf, but flushes the smallest numbers to zero: they add nothing to the sum of a row, and to keep them
            // takes two more instructions.
            float result;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value * 1.4426950408889634f));
            return result;
        }
    }
};

// hole: finish
// Makes results of the elements of a row, once its sum is known. A row without a value above minus infinity, or with NaN or
// plus infinity, becomes NaN, because the difference, the sum or the quotient does.
template <typename T>
struct Finish {
    static constexpr bool kOfTerms = true;
    float largest;
    float factor;

    __device__ explicit Finish(ExponentialSum known) : largest(known.largest), factor(1.0f / known.sum) {}
    __device__ __forceinline__ float operator()(float value) const {
        return QuickExponential<T>::of(value - largest) * factor;
    }
    __device__ __forceinline__ float times(float own) const {
        return own == minus_infinity() ? factor : QuickExponential<T>::of(own - largest) * factor;
    }
};
// end of hole: finish

template <typename T, typename Unit, int kElements>
__device__ __forceinline__ void finish_unit(Unit& unit, const Finish<T>& finish) {
    float values[kElements];
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
        values[j] = finish(unit.get(j));
    }
    unit.put(values);
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
                add<QuickExponential<T>, Unit, kElements>(known, units[k]);
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
    // Exponentials are kept if there are registers for them, and otherwise computed again.
    constexpr bool kTerms = Finish<T>::kOfTerms && kKept == 0 && kUnits * kElements <= 32;
    float terms[kTerms ? kUnits * kElements : 1];
    const float begin = origin(largest);
    float sum = kKept > 0 ? known.sum * QuickExponential<T>::of(known.largest - begin) : 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float term = QuickExponential<T>::of(held[i].get(j) - begin);
                sum += term;
                if constexpr (kTerms) {
                    terms[i * kElements + j] = term;
                }
            }
            forget(held[i].bits);
        }
    }
    const Finish<T> finish(over_row<QuickExponential<T>, kLanes, kRows>({largest, sum}));
    [[maybe_unused]] float times = 0.0f;
    if constexpr (kTerms) {
        times = finish.times(largest);
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            if constexpr (kTerms) {
                float values[kElements];
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    values[j] = terms[i * kElements + j] * times;
                }
                held[i].put(values);
            } else {
                finish_unit<T, Unit, kElements>(held[i], finish);
            }
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

// Rows that a block fills to the last element: kUnits vectors for each of its kThreads threads. Exponentials are relative to
// the largest value of a warp, so one barrier is enough.
template <typename T, int kThreads, int kElements, int kUnits>
__global__ void __launch_bounds__(kThreads) exact(T* out, const T* input) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    constexpr int kWarps = kThreads / kWarp;
    const int64_t at = static_cast<int64_t>(blockIdx.x) * (kThreads * kUnits) + threadIdx.x;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + at;
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        held[i].bits = load(from + i * kThreads);
    }
    float largest = minus_infinity();
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            largest = fmaxf(largest, held[i].quick(j));
        }
        forget(held[i].bits);
    }
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    constexpr bool kTerms = Finish<T>::kOfTerms && kUnits * kElements <= 32;
    float terms[kTerms ? kUnits * kElements : 1];
    const float begin = origin(largest);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            const float term = QuickExponential<T>::of(held[i].quick(j) - begin);
            sum += term;
            if constexpr (kTerms) {
                terms[i * kElements + j] = term;
            }
        }
        forget(held[i].bits);
    }
    sum = lanes_sum<kWarp>(sum);
    __shared__ ExponentialSum parts[kWarps];
    const int lane = threadIdx.x % kWarp;
    if (lane == 0) {
        parts[threadIdx.x / kWarp] = {largest, sum};
    }
    __syncthreads();
    const Finish<T> finish(over_lanes<QuickExponential<T>, kWarp>(lane < kWarps ? parts[lane] : nothing()));
    [[maybe_unused]] float times = 0.0f;
    if constexpr (kTerms) {
        times = finish.times(largest);
    }
    Bits* const to = reinterpret_cast<Bits*>(out) + at;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if constexpr (kTerms) {
            float values[kElements];
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                values[j] = terms[i * kElements + j] * times;
            }
            held[i].put(values);
        } else {
            finish_unit<T, Unit, kElements>(held[i], finish);
        }
        store(to + i * kThreads, held[i].bits);
    }
}

// Rows of any length, in vectors that begin where memory has them: kUnits of them a thread, at most.
template <typename T, int kMost, int kUnits>
__global__ void __launch_bounds__(kMost) shifted(T* out, const T* input, int hidden) {
    using Covered = covered_slice::Slice<T, false, int>;
    using Unit = typename Covered::Unit;
    constexpr int kElements = Covered::kElements;
    const Covered row(static_cast<int64_t>(blockIdx.x) * hidden, hidden);
    const int length = row.vectors();
    const int lanes = static_cast<int>(blockDim.x);
    Unit held[kUnits];
    float largest = minus_infinity();
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            held[i] = row.read(input, place, false, minus_infinity());
        }
    }
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
                sum += QuickExponential<T>::of(held[i].get(j) - begin);
            }
            forget(held[i].bits);
        }
    }
    const Finish<T> finish(over_row<QuickExponential<T>, kMost, 1>({largest, sum}));
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
    const Finish<T> finish(over_slice<QuickExponential<T>, T, kBlock, kUnroll>(input, slice));
    write_slice<T, kBlock>(out, input, slice, finish);
}

// A row by several blocks: `read_parts` finds the sum of each part, `write_parts` writes the results.
template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    read_parts(float* found, const T* input, long long hidden, int parts) {
    const Slice<kElements> slice = slice_of<kElements>(blockIdx.x / parts, hidden, blockIdx.x % parts, parts);
    keep_part(found, over_slice<QuickExponential<T>, T, kBlock, kUnroll>(input, slice));
}

template <typename T, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    write_parts(T* out, const T* input, const float* found, long long hidden, int parts) {
    const int64_t row = blockIdx.x / parts;
    const Finish<T> finish(over_parts<QuickExponential<T>>(found, row, parts, threadIdx.x % kWarp));
    write_slice<T, kBlock>(out, input, slice_of<kElements>(row, hidden, blockIdx.x % parts, parts), finish);
}

}  // namespace softmax
