// The gradient of the logits of cross-entropy, and of the logarithm of the sum of their exponentials.
// Owns: the kernel. Never: chooses among settings; [launch] of backward.toml does.
//
// UNROLL: how many vectors a thread has in flight. STREAM: as in vector.cuh.

#include "vector.cuh"

namespace cross_entropy_gradient {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// Each row by `parts` blocks, which read every logit once and write its gradient: the exponential of its distance from
// the logarithm of the sum, times what both results ask for; less the loss' gradient at the target. A row for which
// nobody asks is zero and is not read.
template <typename T, int kElements>
__global__ void __launch_bounds__(512)
    gradient(T* grad_input, const float* grad_loss, const float* grad_lse, const T* input, const long long* target,
             const float* lse, long long vocabulary, long long ignored, int parts) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const int64_t row = blockIdx.x / parts;
    const int part = blockIdx.x % parts;
    const long long column = target[row];
    const bool counts = column != ignored && column >= 0 && column < vocabulary;
    const float of_loss = counts ? grad_loss[row] : 0.0f;
    const float factor = of_loss + grad_lse[row];
    const bool is_asked = factor != 0.0f;
    const float logarithm = lse[row];
    const int64_t begin = row * vocabulary;
    const int64_t hit = counts ? begin + column : -1;

    const Slice<kElements> slice(begin, vocabulary);
    const Bits* const from = reinterpret_cast<const Bits*>(input + slice.aligned());
    Bits* const to = reinterpret_cast<Bits*>(grad_input + slice.aligned());
    const int64_t share = (slice.vectors + parts - 1) / parts;
    const int64_t end = share * (part + 1) < slice.vectors ? share * (part + 1) : slice.vectors;
    const int step = blockDim.x;
    for (int64_t start = share * part + threadIdx.x; start < end; start += step * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (is_asked && start + i * step < end) {
                units[i].bits = load(from + start + i * step);
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            const int64_t place = start + i * step;
            if (place < end) {
                const int64_t first = slice.aligned() + place * kElements;
                // The target's element of this vector, if it is in it.
                const int64_t at = hit - first;
                Unit unit;
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const float share_of = is_asked ? exponential<T>(units[i].get(j) - logarithm) * factor : 0.0f;
                    unit.set(j, at == j ? share_of - of_loss : share_of);
                }
                store(to + place, unit.bits);
            }
        }
    }
    const int64_t single = part == 0 ? slice.single(threadIdx.x) : -1;
    if (single >= 0) {
        const float share_of = is_asked ? exponential<T>(to_float(input[single]) - logarithm) * factor : 0.0f;
        from_float(single == hit ? share_of - of_loss : share_of, grad_input[single]);
    }
}

}  // namespace cross_entropy_gradient
