// The gradients of root-mean-square normalisation of a sum. `sum` is the forward's result; both of its addends have the
// same gradient.
// Owns: the kernels. Never: chooses among them; [launch] of backward.toml does.
//
// AHEAD, UNROLL and STREAM: as in normed_row.cuh and vector.cuh.

#include "normed_row.cuh"

namespace add_rms_norm_gradient {

template <typename T, int kElements, int kUnits, int kLanes, bool kKept>
__global__ void __launch_bounds__(kLanes > 0 ? 128 : 512)
    walk(T* grad_input, float* partial, const T* grad_out, const T* grad_sum, const T* sum, const T* weight,
         long long rows, int hidden, float eps) {
    normed::walk<false, true, false, T, kElements, kUnits, kLanes, kKept>(
        grad_input, partial, grad_out, grad_sum, sum, weight, rows, hidden, eps);
}

template <typename T>
__global__ void __launch_bounds__(1024)
    each(T* grad_input, float* known, const T* grad_out, const T* grad_sum, const T* sum, const T* weight,
         long long hidden, float eps) {
    normed::each<false, true, false, T>(grad_input, known, grad_out, grad_sum, sum, weight, hidden, eps);
}

template <typename T>
__global__ void __launch_bounds__(512)
    columns(float* partial, const float* known, const T* grad_out, const T* sum, long long rows, long long hidden) {
    normed::columns<false, T>(partial, known, grad_out, sum, rows, hidden);
}

template <typename T>
__global__ void __launch_bounds__(512)
    finish(T* grad_weight, const float* partial, int parts, long long hidden) {
    normed::finish<false, T>(grad_weight, nullptr, partial, parts, hidden);
}

}  // namespace add_rms_norm_gradient
