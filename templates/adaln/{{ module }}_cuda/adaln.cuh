// Layer normalisation without weights, then a scale and a shift of each batch.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many elements of a row that is not held a thread has in flight. STREAM: what is marked so that it leaves the
// caches first; vector.cuh says how.

#include "exact_row.cuh"
#include "fetch.cuh"
#include "shifted_row.cuh"

namespace adaln {

using namespace exact_row;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// hole: modulation
// What a normalised element becomes, given the scale and the shift of its batch.
__device__ __forceinline__ float modulated(float value, float scale, float shift) {
    return value * (1.0f + scale) + shift;
}
// end of hole: modulation

// Whether registers are left for what every row has in common: scale and shift are then on the way while a row is summed.
template <typename T, int kElements, int kUnits>
constexpr bool kEarly = 2 * kUnits * kElements * sizeof(T) <= 64;

// A row that its threads hold. Deviations are squared once the mean is known. Scale and shift of its batch begin at element `at`.
template <typename T, int kLanes, int kRows, int kElements, int kUnits>
__device__ __forceinline__ void held_row(
    T* out, const T* input, const T* scale, const T* shift, int64_t at, int64_t row, int length, int lane, int lanes,
    int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    const Bits* const factors = reinterpret_cast<const Bits*>(scale + at);
    const Bits* const terms = reinterpret_cast<const Bits*>(shift + at);
    Unit held[kUnits];
    Unit by[kUnits];
    Unit plus[kUnits];
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
                by[i].bits = factors[place];
                plus[i].bits = terms[place];
            }
        }
    }
    const float part = 1.0f / hidden;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                sum += held[i].get(j);
            }
            forget(held[i].bits);
        }
    }
    const float mean = row_sum<kLanes, kRows, 0>(sum) * part;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float deviation = held[i].get(j) - mean;
                squares += deviation * deviation;
            }
            forget(held[i].bits);
        }
    }
    const float factor = rsqrtf(row_sum<kLanes, kRows, 1>(squares) * part + eps);
    Bits* const to = reinterpret_cast<Bits*>(out) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            if constexpr (!kEarly<T, kElements, kUnits>) {
                by[i].bits = factors[place];
                plus[i].bits = terms[place];
            }
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = (held[i].get(j) - mean) * factor;
                held[i].set(j, modulated(value, by[i].get(j), plus[i].get(j)));
            }
            store(to + place, held[i].bits);
        }
    }
}

// Rows that their threads hold: kUnits vectors a thread, at most.
template <typename T, int kLanes, int kRows, int kElements, int kUnits>
__global__ void __launch_bounds__(kLanes * kRows)
    held(T* out, const T* input, const T* scale, const T* shift, long long rows, int hidden, int tokens, float eps) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + (kRows == 1 ? 0 : threadIdx.x / kLanes);
    const int lanes = kRows == 1 ? static_cast<int>(blockDim.x) : kLanes;
    const int lane = kRows == 1 ? static_cast<int>(threadIdx.x) : threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    // One scale and one shift for all tokens of a batch.
    const int64_t batch =
        row >= rows ? 0 : kRows == 1 ? blockIdx.x / static_cast<unsigned>(tokens) : row / tokens;
    const int64_t at = batch * hidden;
    held_row<T, kLanes, kRows, kElements, kUnits>(
        out, input, scale, shift, at, row, length, lane, lanes, hidden, eps);
}

// Rows that a block fills to the last element, kBlocks of which are to share a multiprocessor. kAtOnce: with one barrier.
// One scale and one shift for all tokens of a batch. kFetch: the block of its first token asks for both before all else.
template <typename T, int kThreads, int kElements, int kUnits, bool kAtOnce, bool kFetch, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    exact(T* out, const T* input, const T* scale, const T* shift, int tokens, float eps) {
    using Bits = typename Vector<T, kElements>::Bits;
    constexpr int kLength = kThreads * kUnits;
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kLength + threadIdx.x;
    const unsigned batch = blockIdx.x / static_cast<unsigned>(tokens);
    const int64_t first = static_cast<int64_t>(batch) * kLength;
    if (kFetch && blockIdx.x == batch * static_cast<unsigned>(tokens)) {
        constexpr int kBytes = kLength * sizeof(Bits);
        fetch::into_l2<kThreads, kBytes>(reinterpret_cast<const Bits*>(scale) + first);
        fetch::into_l2<kThreads, kBytes>(reinterpret_cast<const Bits*>(shift) + first);
    }
    const int64_t own = first + threadIdx.x;
    normalise<T, kThreads, kElements, kUnits, kAtOnce>(
        reinterpret_cast<Bits*>(out) + at, reinterpret_cast<const Bits*>(input) + at,
        reinterpret_cast<const Bits*>(scale) + own, reinterpret_cast<const Bits*>(shift) + own, eps,
        [](float value, float by, float plus) { return modulated(value, by, plus); });
}

// As `held`, for rows that a block has to itself, but with fewer blocks than rows: each has neighboring rows, keeps its part
// of scale and shift for those of one batch, and the next row is on its way while this one is summed. Two sums alternate,
// so no barrier guards their memory.
template <typename T, int kLanes, int kElements, int kUnits>
__global__ void __launch_bounds__(kLanes)
    held_in_turns(
        T* out, const T* input, const T* scale, const T* shift, long long rows, int hidden, int tokens, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int lanes = static_cast<int>(blockDim.x);
    const int lane = static_cast<int>(threadIdx.x);
    const int length = hidden / kElements;
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(out);
    const int64_t begin = rows * blockIdx.x / gridDim.x;
    const int64_t end = rows * (blockIdx.x + 1ll) / gridDim.x;
    Unit by[kUnits];
    Unit plus[kUnits];
    Unit next[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            next[i].bits = load(from + begin * length + place);
        }
    }
    int64_t left = 0;
    for (int64_t row = begin; row < end; ++row) {
        if (left == 0) {
            const int64_t batch = row / tokens;
            left = (batch + 1) * tokens - row;
#pragma unroll
            for (int i = 0; i < kUnits; ++i) {
                const int place = lane + i * lanes;
                if (place < length) {
                    by[i].bits = reinterpret_cast<const Bits*>(scale)[batch * length + place];
                    plus[i].bits = reinterpret_cast<const Bits*>(shift)[batch * length + place];
                }
            }
        }
        --left;
        Unit held[kUnits];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
                held[i].bits = next[i].bits;
                if (row + 1 < end) {
                    next[i].bits = load(from + (row + 1) * length + place);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            if (lane + i * lanes < length) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    sum += held[i].get(j);
                }
                forget(held[i].bits);
            }
        }
        const float mean = row_sum<kLanes, 1, 0>(sum) / hidden;
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            if (lane + i * lanes < length) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const float deviation = held[i].get(j) - mean;
                    squares += deviation * deviation;
                }
                forget(held[i].bits);
            }
        }
        const float factor = rsqrtf(row_sum<kLanes, 1, 1>(squares) / hidden + eps);
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const float value = (held[i].get(j) - mean) * factor;
                    held[i].set(j, modulated(value, by[i].get(j), plus[i].get(j)));
                }
                store(to + row * length + place, held[i].bits);
                forget(by[i].bits);
                forget(plus[i].bits);
            }
        }
    }
}

// Rows of any length, in vectors that begin where memory has them: kUnits of them a thread, at most. One scale and one shift for
// all tokens of a batch. One block is enough for a multiprocessor: the compiler would spill registers to have two.
template <typename T, int kMost, int kUnits>
__global__ void __launch_bounds__(kMost, 1)
    shifted(T* out, const T* input, const T* scale, const T* shift, int hidden, int tokens, float eps) {
    const int64_t at = static_cast<int64_t>(blockIdx.x / static_cast<unsigned>(tokens)) * hidden;
    shifted_row::normalise<kMost, kUnits, true>(
        out, input, scale + at, shift + at, hidden, eps,
        [](float value, float by, float plus) { return modulated(value, by, plus); });
}

// Any row: for the mean, for the deviations, for the results.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    read_thrice(T* out, const T* input, const T* scale, const T* shift, long long hidden, long long tokens, float eps) {
    const int64_t row = blockIdx.x;
    const T* const from = input + row * hidden;
    float sum = 0.0f;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        sum += to_float(from[column]);
    }
    const float mean = row_sum<kBlock, 1, 0>(sum) / hidden;
    float squares = 0.0f;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float deviation = to_float(from[column]) - mean;
        squares += deviation * deviation;
    }
    const float factor = rsqrtf(row_sum<kBlock, 1, 1>(squares) / hidden + eps);
    const T* const scales = scale + row / tokens * hidden;
    const T* const shifts = shift + row / tokens * hidden;
    T* const to = out + row * hidden;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = (to_float(from[column]) - mean) * factor;
        from_float(modulated(value, to_float(scales[column]), to_float(shifts[column])), to[column]);
    }
}

}  // namespace adaln
