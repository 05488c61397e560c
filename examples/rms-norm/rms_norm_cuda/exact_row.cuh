// Rows that a block holds to the last element: kUnits vectors for each of its kThreads threads. All lengths are known when
// this is compiled, so that no thread asks where its row ends, and indices cost nothing.
// Owns: what is known of such a row. Never: a kernel.

#pragma once

#include "vector.cuh"

namespace exact_row {

using namespace vector;

// Sum over the block, known to all threads and added in the same order in every run. Each use in a kernel has a number of
// its own, and so memory of its own: no barrier is needed between them.
template <int kThreads, int kUse>
__device__ __forceinline__ float block_sum(float value) {
    constexpr int kWarps = kThreads / kWarp;
    __shared__ alignas(16) float sums[kWarps];
    value = lanes_sum<kWarp>(value);
    if (threadIdx.x % kWarp == 0) {
        sums[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    if constexpr (kWarps > 16) {
        const int lane = threadIdx.x % kWarp;
        return lanes_sum<kWarp>(lane < kWarps ? sums[lane] : 0.0f);
    } else {
        // Few words that all threads read are there sooner than what goes through five shuffles.
        float all = 0.0f;
#pragma unroll
        for (int i = 0; i < kWarps; ++i) {
            all += sums[i];
        }
        return all;
    }
}

// The mean of a row, and the sum of the squares of what its values are away from it.
struct Moments {
    float mean;
    float squares;
};

// Deviations are squared once the mean is known. `meanwhile` is called before the last wait for other threads: what it loads
// is on its way then.
template <int kThreads, typename T, int kElements, int kUnits, typename Meanwhile>
__device__ __forceinline__ Moments
moments_in_turn(Vector<T, kElements> (&held)[kUnits], const Meanwhile& meanwhile) {
    constexpr float kPart = 1.0f / (kThreads * kUnits * kElements);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            sum += held[i].quick(j);
        }
        forget(held[i].bits);
    }
    const float mean = block_sum<kThreads, 0>(sum) * kPart;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            const float deviation = held[i].quick(j) - mean;
            squares += deviation * deviation;
        }
        forget(held[i].bits);
    }
    meanwhile();
    return {mean, block_sum<kThreads, 1>(squares)};
}

// The same with one barrier: threads have moments of their own, which are joined. Each reads its values once, relative to
// the first of them: as that is one of the values, what cancels is never much more than what is left.
template <int kThreads, typename T, int kElements, int kUnits, typename Meanwhile>
__device__ __forceinline__ Moments
moments_at_once(Vector<T, kElements> (&held)[kUnits], const Meanwhile& meanwhile) {
    constexpr int kWarps = kThreads / kWarp;
    constexpr int kOwn = kUnits * kElements;
    const float origin = held[0].quick(0);
    float sum = 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            const float value = held[i].quick(j) - origin;
            sum += value;
            squares += value * value;
        }
        forget(held[i].bits);
    }
    const float own = sum * (1.0f / kOwn);
    squares -= sum * own;
    // Of a warp: the mean of means, and their deviations.
    float mean = lanes_sum<kWarp>(origin + own) * (1.0f / kWarp);
    const float away = origin + own - mean;
    squares = lanes_sum<kWarp>(squares + away * away * kOwn);
    __shared__ alignas(16) float2 parts[kWarps];
    if (threadIdx.x % kWarp == 0) {
        parts[threadIdx.x / kWarp] = {mean, squares};
    }
    meanwhile();
    __syncthreads();
    mean = 0.0f;
    squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
        mean += parts[i].x;
        squares += parts[i].y;
    }
    mean *= 1.0f / kWarps;
    float between = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
        const float deviation = parts[i].x - mean;
        between += deviation * deviation;
    }
    return {mean, squares + between * (kOwn * kWarp)};
}

// C += A B of a warp, in float: A is 16 x 16, B is 16 x 8, and 16-bit values lie among the threads as mma.sync has them. Of
// which rows and columns a thread has its own, PTX says under "Matrix Fragments for mma.m16n8k16".
template <typename T>
__device__ __forceinline__ void multiply(float (&c)[4], uint4 a, uint32_t low, uint32_t high) {
    if constexpr (kBfloat16<T>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{ %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(low), "r"(high));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{ %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(low), "r"(high));
    }
}

// Whether matrix products know how to sum what a thread holds: 16 bytes of 16-bit values at a time, since 8.0.
template <typename T, int kElements>
constexpr bool kMultiplies =
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    sizeof(T) == 2 && kElements == 8;
#else
    false;
#endif

// The same with one barrier and less than half of the instructions: a thread's vector is its part of a matrix A. Times ones A
// is the sum, and the diagonal of A times its transpose has the squares. They are exact, but what values have in common
// cancels when the mean is taken off: where it is most of them, deviations are squared instead, as above.
template <int kThreads, typename T, int kElements, int kUnits, typename Meanwhile>
__device__ __forceinline__ Moments
moments_by_products(Vector<T, kElements> (&held)[kUnits], const Meanwhile& meanwhile) {
    constexpr int kWarps = kThreads / kWarp;
    constexpr float kPart = 1.0f / (kThreads * kUnits * kElements);
    constexpr float kMost = 8.0f;
    constexpr uint32_t kOnes = kBfloat16<T> ? 0x3f803f80u : 0x3c003c00u;
    float sums[4] = {};
    // A times the transpose of its upper half, and of its lower one.
    float upper[4] = {};
    float lower[4] = {};
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const uint4 a = held[i].bits;
        multiply<T>(sums, a, kOnes, kOnes);
        multiply<T>(upper, a, a.x, a.z);
        multiply<T>(lower, a, a.y, a.w);
    }
    // All columns are the same here, and four neighbors have the same two rows.
    float sum = sums[0] + sums[2];
    // The diagonals: of row and column lane / 4 in `upper`, and of the row 8 further down in `lower`.
    const int lane = threadIdx.x % kWarp;
    const bool is_odd = lane / 4 % 2;
    const float diagonal = is_odd ? upper[1] + lower[3] : upper[0] + lower[2];
    float squares = lanes_sum<4>(lane / 8 == lane % 4 ? diagonal : 0.0f);
#pragma unroll
    for (int offset = 4; offset < kWarp; offset *= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    }
    __shared__ alignas(16) float2 parts[kWarps];
    if (lane == 0) {
        parts[threadIdx.x / kWarp] = {sum, squares};
    }
    meanwhile();
    __syncthreads();
    sum = 0.0f;
    squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
        sum += parts[i].x;
        squares += parts[i].y;
    }
    const float mean = sum * kPart;
    const float common = mean * sum;
    squares -= common;
    // Also where there is no number. All threads of the block agree.
    if (!(common <= kMost * squares)) {
        squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float deviation = held[i].quick(j) - mean;
                squares += deviation * deviation;
            }
            forget(held[i].bits);
        }
        squares = block_sum<kThreads, 1>(squares);
    }
    return {mean, squares};
}

// What makes values of mean 0 and variance 1 of a row's. In 16 bits a value has fewer digits than the product that is
// subtracted here, so that one multiplication and addition does; in float the difference is taken first.
template <typename T>
struct Normal {
    float mean;
    float factor;
    float shift;

    __device__ __forceinline__ Normal(Moments moments, float part, float eps)
        : mean(moments.mean), factor(rsqrtf(moments.squares * part + eps)), shift(-mean * factor) {}
    __device__ __forceinline__ float operator()(float value) const {
        if constexpr (sizeof(T) == 4) {
            return (value - mean) * factor;
        } else {
            return fmaf(value, factor, shift);
        }
    }
};

// A row normalised: `rule` makes a result of a value of mean 0 and variance 1, and of what `factors` and `terms` have at its
// place. kAtOnce: with one barrier; by matrix products, or else with more to compute. All pointers are those of this
// thread's first vector. The factors and terms of a vector are on their way before the last barrier, or before the vector
// before it is stored: in order of use each would be waited for.
template <typename T, int kThreads, int kElements, int kUnits, bool kAtOnce, typename Bits, typename Rule>
__device__ __forceinline__ void
normalise(Bits* to, const Bits* from, const Bits* factors, const Bits* terms, float eps, const Rule& rule) {
    using Unit = Vector<T, kElements>;
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        held[i].bits = load(from + i * kThreads);
    }
    Unit by;
    Unit plus;
    const auto meanwhile = [&] {
        by.bits = factors[0];
        plus.bits = terms[0];
    };
    Moments moments;
    if constexpr (kAtOnce && kMultiplies<T, kElements>) {
        moments = moments_by_products<kThreads>(held, meanwhile);
    } else if constexpr (kAtOnce) {
        moments = moments_at_once<kThreads>(held, meanwhile);
    } else {
        moments = moments_in_turn<kThreads>(held, meanwhile);
    }
    const Normal<T> normal(moments, 1.0f / (kThreads * kUnits * kElements), eps);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        Unit next_by;
        Unit next_plus;
        if (i + 1 < kUnits) {
            next_by.bits = factors[(i + 1) * kThreads];
            next_plus.bits = terms[(i + 1) * kThreads];
        }
        float values[kElements];
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            values[j] = rule(normal(held[i].quick(j)), by.quick(j), plus.quick(j));
        }
        held[i].put(values);
        store(to + i * kThreads, held[i].bits);
        if (i + 1 < kUnits) {
            by.bits = next_by.bits;
            plus.bits = next_plus.bits;
        }
    }
}

}  // namespace exact_row
