// SwiGLU: the first half of a row, times the SiLU of the second half.
// Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// UNROLL: how many vectors of results a thread makes. STREAM: whether inputs and results are marked as used once, so
// that they leave the caches first.

#include "vector.cuh"

namespace mul_silu {

using namespace vector;

// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

// hole: gate
// value * sigmoid(value).
template <typename T>
__device__ __forceinline__ float activated(float value) {
    return quotient<T>(value, 1.0f + exponential<T>(-value));
}
// end of hole: gate

// A row of the input is what is multiplied, then the gates. Vectors of results are counted through all rows,
// so that no thread is idle at the end of one. Index holds as many elements as the input has.
template <typename T, int kBlock, int kElements, typename Index>
__global__ void __launch_bounds__(kBlock) gated(T* out, const T* input, Index count, Index length) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const from = reinterpret_cast<const Bits*>(input);
    Bits* const to = reinterpret_cast<Bits*>(out);
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
    Unit gates[kUnroll];
    Unit ups[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
            // `place` is of row place / length, before which lie twice as many.
            const Index up = place + place / length * length;
            ups[i].bits = load(from + up);
            gates[i].bits = load(from + up + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                gates[i].set(j, activated<T>(gates[i].get(j)) * ups[i].get(j));
            }
            store(to + place, gates[i].bits);
        }
    }
}

}  // namespace mul_silu
