// The gradient of softmax. Owns: the kernels. Never: chooses among them; [launch] of backward.toml does.
//
// UNROLL and STREAM: as in softmax_row.cuh and vector.cuh.

#include "softmax_row.cuh"

namespace softmax_gradient {

// The results y of a row with gradients g: y (g - sum of g y), where y is a power by the sum of them. A row without a
// value above minus infinity, or with NaN or plus infinity, is NaN: the power, the sum or the quotient is.
template <typename T>
struct Rule {
    static constexpr bool kOfPowers = true;
    float factor;
    float of_top;
    float mean;

    // Both numbers are by the sum of powers, kScale times.
    __device__ explicit Rule(const softmax_row::Known& known)
        : factor(vector::quotient<T>(softmax_row::kScale<T>, known.sum)), of_top(known.top.gradient),
          mean(vector::quotient<T>(known.gradients, known.sum) * vector::quotient<T>(1.0f, known.sum)) {}
    __device__ __forceinline__ float operator()(float gradient, const softmax_row::Power<T>& power) const {
        return power.times(factor * (gradient - of_top) - mean) * (1.0f / softmax_row::kScale<T>);
    }
};

template <typename T, int kElements, int kUnits, int kLanes>
__global__ void __launch_bounds__(softmax_row::kBlock)
    held(T* grad_input, const T* grad_out, const T* input, long long rows, int hidden) {
    softmax_row::held<Rule<T>, T, kElements, kUnits, kLanes>(grad_input, grad_out, input, rows, hidden);
}

// One block a multiprocessor is enough: to have room for two, compilers keep single values in local memory.
template <typename T, int kElements>
__global__ void __launch_bounds__(softmax_row::kBlock, 1)
    read_twice(T* grad_input, const T* grad_out, const T* input, long long hidden) {
    softmax_row::read_twice<Rule<T>, T, kElements>(grad_input, grad_out, input, hidden);
}

}  // namespace softmax_gradient
