// Root-mean-square normalisation.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many elements of a row that is not held a thread has in flight. STREAM: what is marked so that it leaves the
// caches first; vector.cuh says how.

#include "covered_slice.cuh"
#include "exact_row.cuh"

namespace rms_norm {

using namespace exact_row;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// hole: scaling
// What an element of the sum becomes, given the row's scale, 1 / root mean square, and the element's weight.
__device__ __forceinline__ float scaled(float value, float scale, float weight) { return value * scale * weight; }
// end of hole: scaling

// Whether registers are left for what every row has in common: the weight is then on the way while a row is summed.
template <typename T, int kElements, int kUnits>
constexpr bool kEarly = kUnits * kElements * sizeof(T) <= 64;

// A row that its threads hold.
template <typename T, int kLanes, int kRows, int kElements, int kUnits>
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
        if (place < length) {
            held[i].bits = load(from + place);
        }
    }
    if constexpr (kEarly<T, kElements, kUnits>) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
                by[i].bits = weights[place];
            }
        }
    }
    const float part = 1.0f / hidden;
    float squares = 0.0f;
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
    const float scale = rsqrtf(row_sum<kLanes, kRows, 0>(squares) * part + eps);
    Bits* const to = reinterpret_cast<Bits*>(out) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
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
    held_row<T, kLanes, kRows, kElements, kUnits>(
        out, input, weight, row, length, lane, lanes, hidden, eps);
}

// Rows that a block fills to the last element, kBlocks of which are to share a multiprocessor.
template <typename T, int kThreads, int kElements, int kUnits, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) exact(T* out, const T* input, const T* weight, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    constexpr int kLength = kThreads * kUnits;
    constexpr float kPart = 1.0f / (kLength * kElements);
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kLength + threadIdx.x;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + at;
    const Bits* const weights = reinterpret_cast<const Bits*>(weight) + threadIdx.x;
    Unit held[kUnits];
    Unit by[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        held[i].bits = load(from + i * kThreads);
    }
    if constexpr (kEarly<T, kElements, kUnits>) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            by[i].bits = weights[i * kThreads];
        }
    }
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            const float value = held[i].quick(j);
            squares += value * value;
        }
        forget(held[i].bits);
    }
    const float scale = rsqrtf(block_sum<kThreads, 0>(squares) * kPart + eps);
    Bits* const to = reinterpret_cast<Bits*>(out) + at;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if constexpr (!kEarly<T, kElements, kUnits>) {
            by[i].bits = weights[i * kThreads];
        }
        float values[kElements];
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            values[j] = scaled(held[i].quick(j), scale, by[i].quick(j));
        }
        held[i].put(values);
        store(to + i * kThreads, held[i].bits);
    }
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

// Rows of any length, in vectors that begin where memory has them: kUnits of them a thread, at most.
template <typename T, int kMost, int kUnits>
__global__ void __launch_bounds__(kMost) shifted(T* out, const T* input, const T* weight, int hidden, float eps) {
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
            held[i] = row.read(input, place, false);
        }
    }
    Unit by[kUnits];
    if constexpr (kEarly<T, kElements, kUnits>) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = threadIdx.x + i * lanes;
            if (place < length) {
                by[i] = row.beside(weight, place);
            }
        }
    }
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (threadIdx.x + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = held[i].get(j);
                squares += value * value;
            }
            forget(held[i].bits);
        }
    }
    const float scale = rsqrtf(row_sum<kMost, 1, 0>(squares) / hidden + eps);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            if constexpr (!kEarly<T, kElements, kUnits>) {
                by[i] = row.beside(weight, place);
            }
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                held[i].set(j, scaled(held[i].get(j), scale, by[i].get(j)));
            }
            row.write(out, place, held[i]);
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

}  // namespace rms_norm
