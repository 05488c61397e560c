// Cross-entropy of rows of logits. Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// STREAM: as in vector.cuh.

#include "covered_slice.cuh"
#include "exponential_sum.cuh"

namespace cross_entropy {

using namespace exponential_sum;

// Vectors of a slice, one every kLanes places; minus infinity, which adds nothing, behind its end.
template <typename Unit, int kLanes, int kElements, int kUnroll>
__device__ __forceinline__ void fetch(
    Unit (&units)[kUnroll], const typename Unit::Bits* from, int64_t start, int64_t vectors) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        if (start + i * kLanes < vectors) {
            units[i].bits = load(from + start + i * kLanes);
        } else {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                units[i].set(j, minus_infinity());
            }
        }
    }
}

// The sum of a slice, by kLanes threads: a block, or neighbors of a warp, of which this is number `lane`. A thread adds the
// kUnroll vectors that it has in flight together, so that the sum before is made relative to another largest value once for
// all of them. With kAhead the next vectors are on their way meanwhile.
template <typename T, int kLanes, int kUnroll, bool kAhead, int kElements>
__device__ __forceinline__ ExponentialSum read(const T* input, const Slice<kElements>& slice, int lane) {
    // The elements before and behind the vectors have a thread each.
    static_assert(kLanes >= 2 * kElements - 2);
    using Unit = Vector<T, kElements>;
    const auto* const from = reinterpret_cast<const typename Unit::Bits*>(input + slice.aligned());
    ExponentialSum known = nothing();
    Unit units[kUnroll];
    if constexpr (kAhead) {
        fetch<Unit, kLanes, kElements, kUnroll>(units, from, lane, slice.vectors);
    }
    for (int64_t start = lane; start < slice.vectors; start += kLanes * kUnroll) {
        Unit next[kUnroll];
        if constexpr (kAhead) {
            fetch<Unit, kLanes, kElements, kUnroll>(next, from, start + kLanes * kUnroll, slice.vectors);
        } else {
            fetch<Unit, kLanes, kElements, kUnroll>(units, from, start, slice.vectors);
        }
        float largest = known.largest;
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                largest = fmaxf(largest, units[i].get(j));
            }
        }
        const float origin_now = origin(largest);
        float sums[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            sums[i] = 0.0f;
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                sums[i] += exponential<T>(units[i].get(j) - origin_now);
            }
        }
        float sum = known.sum * exponential<T>(known.largest - origin_now);
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            sum += sums[i];
        }
        known = {largest, sum};
        if constexpr (kAhead) {
#pragma unroll
            for (int i = 0; i < kUnroll; ++i) {
                units[i].bits = next[i].bits;
            }
        }
    }
    const int64_t single = slice.single(lane);
    if (single >= 0) {
        Vector<T, 1> unit;
        unit.elements[0] = input[single];
        add<Exponential<T>, Vector<T, 1>, 1>(known, unit);
    }
    return over_full_row<Exponential<T>, kLanes, 1>(known);
}

// The target of a row. A target that is not a column, or is ignored, does not count.
struct Target {
    bool counts;
    float logit;
};

// Reads it, if this thread needs it. To be called before a row is read: the logit is on its way meanwhile.
template <typename T>
__device__ __forceinline__ Target target_of(
    const T* input, const long long* target, int64_t row, int64_t vocabulary, long long ignored, bool is_needed) {
    Target found = {false, 0.0f};
    if (is_needed) {
        const long long column = target[row];
        found.counts = column != ignored && column >= 0 && column < vocabulary;
        if (found.counts) {
            found.logit = to_float(input[row * vocabulary + column]);
        }
    }
    return found;
}

// hole: finish
// Writes the results of a row. A row without a logit above minus infinity, or with NaN or plus infinity, becomes NaN, as in
// PyTorch. The loss of a target that does not count is zero.
__device__ __forceinline__ void
finish(float* loss, float* lse, int64_t row, const Target& target, ExponentialSum known) {
    const float nan = __int_as_float(0x7fffffff);
    const float logarithm = known.largest == minus_infinity() ? nan : known.largest + logf(known.sum);
    lse[row] = logarithm;
    loss[row] = target.counts ? logarithm - target.logit : 0.0f;
}
// end of hole: finish

// A row by one block.
template <typename T, int kBlock, int kElements, int kUnroll, bool kAhead>
__global__ void __launch_bounds__(kBlock)
    read_rows(float* loss, float* lse, const T* input, const long long* target, long long vocabulary,
              long long ignored) {
    const Target wanted = target_of(input, target, blockIdx.x, vocabulary, ignored, threadIdx.x == 0);
    const ExponentialSum known =
        read<T, kBlock, kUnroll, kAhead>(input, slice_of<kElements>(blockIdx.x, vocabulary, 0, 1), threadIdx.x);
    if (threadIdx.x == 0) {
        finish(loss, lse, blockIdx.x, wanted, known);
    }
}

// A short row by one block, which holds it: a vector for each thread.
template <typename T, int kMost>
__global__ void __launch_bounds__(kMost)
    hold_row(float* loss, float* lse, const T* input, const long long* target, int vocabulary, long long ignored) {
    using Covered = covered_slice::Slice<T, false, int>;
    const Target wanted = target_of(input, target, blockIdx.x, vocabulary, ignored, threadIdx.x == 0);
    const Covered row(static_cast<int64_t>(blockIdx.x) * vocabulary, vocabulary);
    const int place = threadIdx.x;
    ExponentialSum known = nothing();
    if (place < row.vectors()) {
        const auto unit = row.read(input, place, false, minus_infinity());
        add<Exponential<T>, typename Covered::Unit, Covered::kElements>(known, unit);
    }
    known = over_row<Exponential<T>, kMost, 1>(known);
    if (threadIdx.x == 0) {
        finish(loss, lse, blockIdx.x, wanted, known);
    }
}

// Short rows, each by kLanes neighboring threads of a warp. Those behind the last row read nothing.
template <typename T, int kBlock, int kLanes, int kElements, int kUnroll, bool kAhead>
__global__ void __launch_bounds__(kBlock)
    read_short_rows(float* loss, float* lse, const T* input, const long long* target, long long rows,
                    long long vocabulary, long long ignored) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes;
    const int lane = threadIdx.x % kLanes;
    const bool writes = lane == 0 && row < rows;
    const Target wanted = target_of(input, target, row, vocabulary, ignored, writes);
    const ExponentialSum known =
        read<T, kLanes, kUnroll, kAhead>(input, slice_of<kElements>(row, row < rows ? vocabulary : 0, 0, 1), lane);
    if (writes) {
        finish(loss, lse, row, wanted, known);
    }
}

// A row by several blocks: `read_parts` finds the sum of each part, and `join_parts`, a warp for each row, writes the results.
template <typename T, int kBlock, int kElements, int kUnroll, bool kAhead>
__global__ void __launch_bounds__(kBlock)
    read_parts(float* found, const T* input, long long vocabulary, int parts) {
    const ExponentialSum known =
        read<T, kBlock, kUnroll, kAhead>(
            input, slice_of<kElements>(blockIdx.x / parts, vocabulary, blockIdx.x % parts, parts), threadIdx.x);
    keep_part(found, known);
}

template <typename T>
__global__ void __launch_bounds__(kWarp)
    join_parts(float* loss, float* lse, const T* input, const long long* target, const float* found,
               long long vocabulary, long long ignored, int parts) {
    const int64_t row = blockIdx.x;
    const Target wanted = target_of(input, target, row, vocabulary, ignored, threadIdx.x == 0);
    const ExponentialSum known = over_parts<Exponential<T>>(found, row, parts, threadIdx.x);
    if (threadIdx.x == 0) {
        finish(loss, lse, row, wanted, known);
    }
}

}  // namespace cross_entropy
