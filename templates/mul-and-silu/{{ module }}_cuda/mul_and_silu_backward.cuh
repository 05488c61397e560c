// The gradient of SwiGLU. Owns: the kernel. Never: chooses among settings; [launch] of backward.toml does.
//
// UNROLL: how many vectors of gradients a thread reads. STREAM: as in vector.cuh.

#include "vector.cuh"

namespace mul_and_silu_gradient {

using namespace vector;

// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

// An activation and its derivative.
struct Activated {
    float value;
    float slope;
};

// What value * sigmoid(value) is, and its derivative. Where the sigmoid is 0 or 1, its slope is nothing however large
// the value.
template <typename T>
__device__ __forceinline__ Activated activated(float value) {
    // Of the sigmoid: the share that is a half at least, and the rest. Neither is a difference, no power overflows.
    const float power = exponential<T>(-fabsf(value));
    const float most = quotient<T>(1.0f, 1.0f + power);
    const float least = power * most;
    const float share = value >= 0.0f ? most : least;
    const float slope = most * least;
    return {value * share, slope > 0.0f ? share + value * slope : share};
}

// A row of the input, and of its gradient, is what is multiplied, then the gates. Vectors of the results'
// gradients are counted through all rows, so that no thread is idle at the end of one. Index holds as many elements as
// the input has.
template <typename T, int kElements, typename Index>
__global__ void __launch_bounds__(512)
    gradient(T* grad_input, const T* grad_out, const T* input, Index count, Index length) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const gradients = reinterpret_cast<const Bits*>(grad_out);
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(grad_input);
    const int step = blockDim.x;
    const Index start = static_cast<Index>(blockIdx.x) * (step * kUnroll) + threadIdx.x;
    Unit results[kUnroll];
    Unit gates[kUnroll];
    Unit ups[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * step;
        if (place < count) {
            // `place` is of row place / length, before which lie twice as many.
            const Index up = place + place / length * length;
            results[i].bits = load(gradients + place);
            ups[i].bits = load(from + up);
            gates[i].bits = load(from + up + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * step;
        if (place < count) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float result = results[i].get(j);
                const float up = ups[i].get(j);
                const Activated gate = activated<T>(gates[i].get(j));
                gates[i].set(j, result * up * gate.slope);
                ups[i].set(j, result * gate.value);
            }
            const Index up = place + place / length * length;
            store(to + up, ups[i].bits);
            store(to + up + length, gates[i].bits);
        }
    }
}

}  // namespace mul_and_silu_gradient
