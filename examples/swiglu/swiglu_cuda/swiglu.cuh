// SwiGLU: the SiLU of the first half of a row, times the second half.
// Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// STREAM: as in vector.cuh.

#include "gated_row.cuh"

namespace swiglu {

using namespace gated_row;

// hole: gate
// value * sigmoid(value).
template <typename T>
__device__ __forceinline__ float activated(float value) {
    return quotient<T>(value, 1.0f + exponential<T>(-value));
}
// end of hole: gate

// A row of the input is the gates, then what they are multiplied with. Index holds as many elements as it has.
template <typename T, int kBlock, int kElements, int kUnits, typename Index>
__global__ void __launch_bounds__(kBlock) gated(T* out, const T* input, Index count, Index length) {
    results<T, kBlock, kElements, kUnits, true>(
        out, input, count, length, [](float gate) { return activated<T>(gate); });
}

// The same by blocks that have a part of one row each, in x, which has `length` vectors.
template <typename T, int kBlock, int kElements, int kUnits>
__global__ void __launch_bounds__(kBlock) gated_rows(T* out, const T* input, int length) {
    results_of_row<T, kBlock, kElements, kUnits, true>(
        out, input, length, [](float gate) { return activated<T>(gate); });
}

// The same for rows that are no multiple of a vector: `count` and `length` are elements.
template <typename T, int kBlock, int kElements, typename Index>
__global__ void __launch_bounds__(kBlock) unaligned(T* out, const T* input, Index count, Index length) {
    unaligned_results<T, kBlock, kElements, 1, true>(
        out, input, count, length, [](float gate) { return activated<T>(gate); });
}

}  // namespace swiglu
