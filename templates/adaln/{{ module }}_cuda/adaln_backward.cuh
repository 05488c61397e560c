// The gradients of a normalisation whose scale and shift belong to a batch.
// Owns: the kernels. Never: chooses among them; [launch] of backward.toml does.
//
// Rows are summed over within their batch, by blocks of its own. AHEAD, UNROLL and STREAM: as in normed_row.cuh and
// vector.cuh.

#include "normed_row.cuh"

namespace adaln_gradient {

// The scale and the shift.
constexpr int kSums = normed::kSums<true>;

template <typename T, int kElements, int kUnits, int kLanes, bool kKept>
__global__ void __launch_bounds__(kLanes > 0 ? 128 : 512)
    walk(T* grad_input, float* partial, const T* grad_out, const T* input, const T* scale, long long tokens,
         int hidden, float eps) {
    const int64_t batch = blockIdx.y;
    const int64_t begin = batch * tokens * hidden;
    normed::walk<true, false, true, T, kElements, kUnits, kLanes, kKept>(
        grad_input + begin, partial + batch * gridDim.x * kSums * hidden, grad_out + begin, nullptr, input + begin,
        scale + batch * hidden, tokens, hidden, eps);
}

template <typename T>
__global__ void __launch_bounds__(1024)
    each(T* grad_input, float* known, const T* grad_out, const T* input, const T* scale, long long tokens,
         long long hidden, float eps) {
    const int64_t batch = blockIdx.x / tokens;
    normed::each<true, false, true, T>(
        grad_input, known, grad_out, nullptr, input, scale + batch * hidden, hidden, eps);
}

template <typename T>
__global__ void __launch_bounds__(512)
    columns(float* partial, const float* known, const T* grad_out, const T* input, long long tokens,
            long long hidden) {
    const int64_t batch = blockIdx.z;
    const int64_t begin = batch * tokens * hidden;
    normed::columns<true, T>(
        partial + batch * gridDim.y * kSums * hidden, known + 2 * batch * tokens, grad_out + begin, input + begin,
        tokens, hidden);
}

template <typename T>
__global__ void __launch_bounds__(512)
    finish(T* grad_scale, T* grad_shift, const float* partial, int parts, long long hidden) {
    const int64_t batch = blockIdx.z;
    normed::finish<true, T>(
        grad_scale + batch * hidden, grad_shift + batch * hidden, partial + batch * parts * kSums * hidden, parts,
        hidden);
}

}  // namespace adaln_gradient
