// The gradient of GEGLU. Owns: the kernel. Never: chooses among settings; [launch] of backward.toml does.
//
// UNROLL: vectors of results of which a thread computes gradients. STREAM: as in vector.cuh.

#include "gated_row.cuh"

namespace geglu_gradient {

using namespace gated_row;

// What the GELU of a value is, and its derivative. With kTanh it is value * sigmoid(2 inner), as in the forward; where
// the sigmoid is 0 or 1, its slope is nothing however large the value.
template <typename T, bool kTanh>
__device__ __forceinline__ Activated activated(float value) {
    if constexpr (kTanh) {
        const float square = value * value;
        const float inner = 0.7978845608028654f * (value + 0.044715f * square * value);
        // Of the sigmoid: the share that is a half at least, and the rest. Neither is a difference, no power overflows.
        const float power = exponential<T>(-2.0f * fabsf(inner));
        const float most = quotient<T>(1.0f, 1.0f + power);
        const float least = power * most;
        const float share = inner >= 0.0f ? most : least;
        const float slope = most * least;
        const float of_inner = 1.5957691216057308f * (1.0f + 0.134145f * square);
        return {value * share, slope > 0.0f ? share + value * slope * of_inner : share};
    } else {
        const float share = 0.5f * (1.0f + erff(0.7071067811865476f * value));
        // Of the normal distribution.
        const float density = 0.3989422804014327f * exponential<T>(-0.5f * value * value);
        return {value * share, density > 0.0f ? share + value * density : share};
    }
}

// A row of the input is the gates, then what they are multiplied with. Index holds as many elements as it has.
template <typename T, int kElements, typename Index, bool kTanh>
__global__ void __launch_bounds__(512)
    gradient(T* grad_input, const T* grad_out, const T* input, Index count, Index length) {
    gradients<T, kElements, UNROLL, true>(
        grad_input, grad_out, input, count, length, [](float gate) { return activated<T, kTanh>(gate); });
}

}  // namespace geglu_gradient
