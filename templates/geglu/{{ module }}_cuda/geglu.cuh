// GEGLU: the GELU of the first half of a row, times the second half.
// Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// UNROLL: how many vectors of results a thread makes. STREAM: whether inputs and results are marked as used once, so
// that they leave the caches first.

#include "vector.cuh"

namespace gel {

using namespace vector;

// A name and no macro: not every preprocessor looks into pragmas.
constexpr int kUnroll = UNROLL;

// hole: gate
// value * the normal distribution's share below it. With kTanh by the usual formula, 0.5 value (1 + tanh(inner)), which
// is value * sigmoid(2 inner): nothing cancels in that.
template <typename T, bool kTanh>
__device__ __forceinline__ float activated(float value) {
    if constexpr (kTanh) {
        const float inner = 0.7978845608028654f * (value + 0.044715f * value * value * value);
        return quotient<T>(value, 1.0f + exponential<T>(-2.0f * inner));
    } else {
        return 0.5f * value * (1.0f + erff(0.7071067811865476f * value));
    }
}
// end of hole: gate

// A row of the input is the gates, then what they are multiplied with. Vectors of results are counted through all rows,
// so that no thread is idle at the end of one. Index holds as many elements as the input has.
template <typename T, int kBlock, int kElements, typename Index, bool kTanh>
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
            const Index gate = place + place / length * length;
            gates[i].bits = load(from + gate);
            ups[i].bits = load(from + gate + length);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                gates[i].set(j, activated<T, kTanh>(gates[i].get(j)) * ups[i].get(j));
            }
            store(to + place, gates[i].bits);
        }
    }
}

}  // namespace gel
