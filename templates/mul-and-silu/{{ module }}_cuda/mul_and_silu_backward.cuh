// The gradient of SwiGLU. Owns: the kernel. Never: chooses among settings; [launch] of backward.toml does.
//
// UNROLL: vectors of results of which a thread computes gradients. STREAM: as in vector.cuh.

#include "gated_row.cuh"

namespace mul_and_silu_gradient {

using namespace gated_row;

// A row of the input is what is multiplied, then the gates. Index holds as many elements as it has.
template <typename T, int kElements, typename Index>
__global__ void __launch_bounds__(512)
    gradient(T* grad_input, const T* grad_out, const T* input, Index count, Index length) {
    gradients<T, kElements, UNROLL, false>(
        grad_input, grad_out, input, count, length, [](float gate) { return silu<T>(gate); });
}

}  // namespace mul_and_silu_gradient
