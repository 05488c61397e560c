// Layer normalisation.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many elements of a row that is not held a thread has in flight. STREAM: what is marked so that it leaves the
// caches first; vector.cuh says how.

#include "exact_row.cuh"
#include "fetch.cuh"
#include "shifted_row.cuh"

namespace layer_norm {

using namespace exact_row;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// hole: affine
// What a normalised element becomes, given its weight and its bias; 0 where there is none.
__device__ __forceinline__ float affine(float value, float weight, float bias) { return value * weight + bias; }
// end of hole: affine

// Whether registers are left for what every row has in common: weight and bias are then on the way while a row is summed.
template <typename T, int kElements, int kUnits>
constexpr bool kEarly = 2 * kUnits * kElements * sizeof(T) <= 64;

// A row that its threads hold. Deviations are squared once the mean is known. kBiased: whether there is a bias.
template <typename T, int kLanes, int kRows, int kElements, int kUnits, bool kBiased>
__device__ __forceinline__ void held_row(
    T* out, const T* input, const T* weight, const T* bias, int64_t row, int length, int lane, int lanes, int hidden,
    float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    const Bits* const factors = reinterpret_cast<const Bits*>(weight);
    const Bits* const terms = reinterpret_cast<const Bits*>(bias);
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
                if constexpr (kBiased) {
                    plus[i].bits = terms[place];
                }
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
                if constexpr (kBiased) {
                    plus[i].bits = terms[place];
                }
            }
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = (held[i].get(j) - mean) * factor;
                held[i].set(j, affine(value, by[i].get(j), kBiased ? plus[i].get(j) : 0.0f));
            }
            store(to + place, held[i].bits);
        }
    }
}

// Rows that their threads hold: kUnits vectors a thread, at most.
template <typename T, int kLanes, int kRows, int kElements, int kUnits, bool kBiased>
__global__ void __launch_bounds__(kLanes * kRows)
    held(T* out, const T* input, const T* weight, const T* bias, long long rows, int hidden, float eps) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + (kRows == 1 ? 0 : threadIdx.x / kLanes);
    const int lanes = kRows == 1 ? static_cast<int>(blockDim.x) : kLanes;
    const int lane = kRows == 1 ? static_cast<int>(threadIdx.x) : threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    held_row<T, kLanes, kRows, kElements, kUnits, kBiased>(
        out, input, weight, bias, row, length, lane, lanes, hidden, eps);
}

// Rows that a block fills to the last element, kBlocks of which are to share a multiprocessor. kAtOnce: with one barrier.
// kFetch: the first block asks for weight and bias before all else.
template <typename T, int kThreads, int kElements, int kUnits, bool kAtOnce, bool kFetch, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    exact(T* out, const T* input, const T* weight, const T* bias, float eps) {
    using Bits = typename Vector<T, kElements>::Bits;
    constexpr int kBytes = kThreads * kUnits * sizeof(Bits);
    if (kFetch && blockIdx.x == 0) {
        fetch::into_l2<kThreads, kBytes>(weight);
        fetch::into_l2<kThreads, kBytes>(bias);
    }
    const int64_t at = static_cast<int64_t>(blockIdx.x) * (kThreads * kUnits) + threadIdx.x;
    normalise<T, kThreads, kElements, kUnits, kAtOnce>(
        reinterpret_cast<Bits*>(out) + at, reinterpret_cast<const Bits*>(input) + at,
        reinterpret_cast<const Bits*>(weight) + threadIdx.x, reinterpret_cast<const Bits*>(bias) + threadIdx.x, eps,
        [](float value, float by, float plus) { return affine(value, by, plus); });
}

// As `held`, for rows that a block has to itself, but with fewer blocks than rows: each keeps its part of weight and bias,
// and the next row is on its way while this one is summed. Two sums alternate, so no barrier guards their memory.
template <typename T, int kLanes, int kElements, int kUnits, bool kBiased>
__global__ void __launch_bounds__(kLanes)
    held_in_turns(T* out, const T* input, const T* weight, const T* bias, long long rows, int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int lanes = static_cast<int>(blockDim.x);
    const int lane = static_cast<int>(threadIdx.x);
    const int length = hidden / kElements;
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(out);
    Unit by[kUnits];
    Unit plus[kUnits];
    Unit next[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            next[i].bits = load(from + static_cast<int64_t>(blockIdx.x) * length + place);
            by[i].bits = reinterpret_cast<const Bits*>(weight)[place];
            if constexpr (kBiased) {
                plus[i].bits = reinterpret_cast<const Bits*>(bias)[place];
            }
        }
    }
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        Unit held[kUnits];
        float sum = 0.0f;
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
                    held[i].set(j, affine(value, by[i].get(j), kBiased ? plus[i].get(j) : 0.0f));
                }
                store(to + row * length + place, held[i].bits);
                forget(by[i].bits);
                if constexpr (kBiased) {
                    forget(plus[i].bits);
                }
            }
        }
    }
}

// Rows of any length, in vectors that begin where memory has them: kUnits of them a thread, at most. One block is enough for
// a multiprocessor: the compiler would spill registers to have two.
template <typename T, int kMost, int kUnits, bool kBiased>
__global__ void __launch_bounds__(kMost, 1)
    shifted(T* out, const T* input, const T* weight, const T* bias, int hidden, float eps) {
    shifted_row::normalise<kMost, kUnits, kBiased>(
        out, input, weight, bias, hidden, eps, [](float value, float by, float plus) { return affine(value, by, plus); });
}

// Any row: for the mean, for the deviations, for the results.
template <typename T, int kBlock, bool kBiased>
__global__ void __launch_bounds__(kBlock)
    read_thrice(T* out, const T* input, const T* weight, const T* bias, long long hidden, float eps) {
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
    T* const to = out + row * hidden;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = (to_float(from[column]) - mean) * factor;
        const float plus = kBiased ? to_float(bias[column]) : 0.0f;
        from_float(affine(value, to_float(weight[column]), plus), to[column]);
    }
}

}  // namespace layer_norm
