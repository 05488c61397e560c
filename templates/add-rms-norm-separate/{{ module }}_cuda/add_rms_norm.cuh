// Adds a residual, writes the sum, and normalises it by its root mean square.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many elements of a row that is not held a thread has in flight. STREAM: what is marked so that it leaves the
// caches first; vector.cuh says how.

#include "covered_slice.cuh"
#include "exact_row.cuh"
#include "fetch.cuh"

namespace add_rms_norm {

using namespace exact_row;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// hole: scaling
// What an element of the sum becomes, given the row's scale, 1 / root mean square, and the element's weight.
__device__ __forceinline__ float scaled(float value, float scale, float weight) { return value * scale * weight; }
// end of hole: scaling

// Whether registers are left for the weight, which is then on its way with the row: behind a store it would wait for it.
template <typename T, int kRows, int kElements, int kUnits>
constexpr bool kEarly = kUnits * kElements * sizeof(T) <= (kRows == 1 ? 64 : 32);

// Rows that their threads hold, summed: kUnits vectors a thread, as float, so that a result is rounded once.
template <typename T, int kLanes, int kRows, int kElements, int kUnits>
__global__ void __launch_bounds__(kLanes * kRows)
    held(T* out, T* sum, const T* input, const T* residual, const T* weight, long long rows, int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + (kRows == 1 ? 0 : threadIdx.x / kLanes);
    const int lanes = kRows == 1 ? static_cast<int>(blockDim.x) : kLanes;
    const int lane = kRows == 1 ? static_cast<int>(threadIdx.x) : threadIdx.x % kLanes;
    const int length = row < rows ? hidden / kElements : 0;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + row * length;
    const Bits* const addends = reinterpret_cast<const Bits*>(residual) + row * length;
    Bits* const sums = reinterpret_cast<Bits*>(sum) + row * length;
    Unit inputs[kUnits];
    Unit residuals[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            inputs[i].bits = load(from + place);
            residuals[i].bits = load(addends + place);
        }
    }
    const Bits* const weights = reinterpret_cast<const Bits*>(weight);
    Unit by[kUnits];
    if constexpr (kEarly<T, kRows, kElements, kUnits>) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
                by[i].bits = weights[place];
            }
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
            store(sums + place, residuals[i].bits);
        }
    }
    const float scale = rsqrtf(row_sum<kLanes, kRows, 0>(squares) / hidden + eps);
    Bits* const to = reinterpret_cast<Bits*>(out) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = lane + i * lanes;
        if (place < length) {
            if constexpr (!kEarly<T, kRows, kElements, kUnits>) {
                by[i].bits = weights[place];
            }
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                by[i].set(j, scaled(held[i][j], scale, by[i].get(j)));
            }
            store(to + place, by[i].bits);
        }
    }
}

// Rows that a block fills to the last element, kBlocks of which are to share a multiprocessor. Both addends are kept as they
// were read, in fewer registers than their sum as float, and added twice. kFetch: the first block asks for the weight before
// all else.
template <typename T, int kThreads, int kElements, int kUnits, bool kFetch, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    exact(T* out, T* sum, const T* input, const T* residual, const T* weight, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    constexpr int kLength = kThreads * kUnits;
    constexpr float kPart = 1.0f / (kLength * kElements);
    if (kFetch && blockIdx.x == 0) {
        fetch::into_l2<kThreads, kLength * sizeof(Bits)>(weight);
    }
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kLength + threadIdx.x;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + at;
    const Bits* const addends = reinterpret_cast<const Bits*>(residual) + at;
    Bits* const sums = reinterpret_cast<Bits*>(sum) + at;
    Unit inputs[kUnits];
    Unit residuals[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        inputs[i].bits = load(from + i * kThreads);
        residuals[i].bits = load(addends + i * kThreads);
    }
    const Bits* const weights = reinterpret_cast<const Bits*>(weight) + threadIdx.x;
    Unit by[kUnits];
    by[0].bits = weights[0];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        float values[kElements];
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            values[j] = inputs[i].quick(j) + residuals[i].quick(j);
            squares += values[j] * values[j];
        }
        Unit both;
        both.put(values);
        store(sums + i * kThreads, both.bits);
        forget(inputs[i].bits);
        forget(residuals[i].bits);
    }
    const float scale = rsqrtf(block_sum<kThreads, 0>(squares) * kPart + eps);
    Bits* const to = reinterpret_cast<Bits*>(out) + at;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        // The weights of a vector are on their way before the vector before it is stored.
        if (i + 1 < kUnits) {
            by[i + 1].bits = weights[(i + 1) * kThreads];
        }
        float values[kElements];
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            values[j] = scaled(inputs[i].quick(j) + residuals[i].quick(j), scale, by[i].quick(j));
        }
        inputs[i].put(values);
        store(to + i * kThreads, inputs[i].bits);
    }
}

// Rows of any length, in vectors that begin where memory has them: kUnits of them a thread, at most.
template <typename T, int kMost, int kUnits>
__global__ void __launch_bounds__(kMost)
    shifted(T* out, T* sum, const T* input, const T* residual, const T* weight, int hidden, float eps) {
    using Covered = covered_slice::Slice<T, false, int>;
    using Unit = typename Covered::Unit;
    constexpr int kElements = Covered::kElements;
    const Covered row(static_cast<int64_t>(blockIdx.x) * hidden, hidden);
    const int length = row.vectors();
    const int lanes = static_cast<int>(blockDim.x);
    Unit inputs[kUnits];
    Unit residuals[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            inputs[i] = row.read(input, place, false);
            residuals[i] = row.read(residual, place, false);
        }
    }
    Unit by[kUnits];
    if constexpr (kEarly<T, 1, kElements, kUnits>) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = threadIdx.x + i * lanes;
            if (place < length) {
                by[i] = row.beside(weight, place);
            }
        }
    }
    float held[kUnits][kElements];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = inputs[i].get(j) + residuals[i].get(j);
                held[i][j] = value;
                squares += value * value;
                residuals[i].set(j, value);
            }
            row.write(sum, place, residuals[i]);
        }
    }
    const float scale = rsqrtf(row_sum<kMost, 1, 0>(squares) / hidden + eps);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * lanes;
        if (place < length) {
            if constexpr (!kEarly<T, 1, kElements, kUnits>) {
                by[i] = row.beside(weight, place);
            }
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                by[i].set(j, scaled(held[i][j], scale, by[i].get(j)));
            }
            row.write(out, place, by[i]);
        }
    }
}

// Any row: once for the sum of squares; once more for the results.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    read_twice(T* out, T* sum, const T* input, const T* residual, const T* weight, long long hidden, float eps) {
    const T* const from = input + blockIdx.x * hidden;
    const T* const addend = residual + blockIdx.x * hidden;
    T* const added = sum + blockIdx.x * hidden;
    float squares = 0.0f;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = to_float(from[column]) + to_float(addend[column]);
        squares += value * value;
    }
    const float scale = rsqrtf(row_sum<kBlock, 1, 0>(squares) / hidden + eps);
    T* const to = out + blockIdx.x * hidden;
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = to_float(from[column]) + to_float(addend[column]);
        from_float(value, added[column]);
        from_float(scaled(value, scale, to_float(weight[column])), to[column]);
    }
}

}  // namespace add_rms_norm
