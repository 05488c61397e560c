// GEGLU: the GELU of the first half of a row, times the second half.
// Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// STREAM: as in vector.cuh.

#include "gated_row.cuh"

namespace geglu {

using namespace gated_row;

// hole: gate
// value * the normal distribution's share below it. With kTanh by the usual formula, 0.5 value (1 + tanh(inner)), which
// is value * sigmoid(2 inner): nothing cancels in that.
template <typename T, bool kTanh>
__device__ __forceinline__ float activated(float value) {
    if constexpr (kTanh) {
        const float inner = 0.7978845608028654f * (value + 0.044715f * value * value * value);
        return quotient<T>(value, 1.0f + exponential<T>(-2.0f * inner));
    } else {
        return 0.5f * value * (1.0f + erff(0.7071067811865476f * value));
    }
}
// end of hole: gate

// A row of the input is the gates, then what they are multiplied with. Index holds as many elements as it has.
template <typename T, int kBlock, int kElements, int kUnits, typename Index, bool kTanh>
__global__ void __launch_bounds__(kBlock) gated(T* out, const T* input, Index count, Index length) {
    results<T, kBlock, kElements, kUnits, true>(
        out, input, count, length, [](float gate) { return activated<T, kTanh>(gate); });
}

// The same by blocks that have a part of one row each, in x, which has `length` vectors.
template <typename T, int kBlock, int kElements, int kUnits, bool kTanh>
__global__ void __launch_bounds__(kBlock) gated_rows(T* out, const T* input, int length) {
    results_of_row<T, kBlock, kElements, kUnits, true>(
        out, input, length, [](float gate) { return activated<T, kTanh>(gate); });
}

// The same for rows that are no multiple of a vector: `count` and `length` are elements.
template <typename T, int kBlock, int kElements, typename Index, bool kTanh>
__global__ void __launch_bounds__(kBlock) unaligned(T* out, const T* input, Index count, Index length) {
    unaligned_results<T, kBlock, kElements, 1, true>(
        out, input, count, length, [](float gate) { return activated<T, kTanh>(gate); });
}

}  // namespace geglu
