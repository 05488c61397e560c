// The gradient of softmax. Owns: the kernels. Never: chooses among them; [launch] of backward.toml does.
//
// UNROLL and STREAM: as in weighted_row.cuh and vector.cuh.

#include "weighted_row.cuh"

namespace softmax_gradient {

// The results y of a row with gradients g: y (g - sum of g y).
struct Rule {
    __device__ static __forceinline__ float term(float gradient, float result) { return gradient * result; }
    __device__ static __forceinline__ float finish(float gradient, float result, float sum) {
        return result * (gradient - sum);
    }
};

template <typename T, int kElements, int kUnits, int kLanes>
__global__ void __launch_bounds__(512)
    held(T* grad_input, const T* grad_out, const T* out, long long rows, int hidden) {
    __shared__ float memory[vector::kWarp];
    weighted::held<Rule, T, kElements, kUnits, kLanes>(grad_input, grad_out, out, rows, hidden, memory);
}

template <typename T, int kElements>
__global__ void __launch_bounds__(512)
    read_twice(T* grad_input, const T* grad_out, const T* out, long long hidden) {
    __shared__ float memory[vector::kWarp];
    weighted::read_twice<Rule, T, kElements>(grad_input, grad_out, out, hidden, memory);
}

}  // namespace softmax_gradient
