// A chain of elementwise steps in one pass over memory.
// Owns: the kernel and the chain. Never: chooses among settings; [launch] of op.toml does.
//
// UNROLL: how many vectors of results a thread makes. STREAM: whether inputs and results are marked as used once, so
// that they leave the caches first.

#include "vector.cuh"

namespace elementwise {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// One element of the result from one element of each input and the scalars, all as float; it is rounded to T
// afterwards. What stands here touches no memory, calls no barrier and no shuffle, and keeps nothing from one element
// to the next: it is called once for each element, in any order. T says how exact it must be. The same chain is in
// reference.py.
template <typename T>
__device__ __forceinline__ float expression(float input, float residual, float scale, float shift) {
    // hole: expression
    const float value = fmaf(input, scale, residual) + shift;
    return quotient<T>(value, 1.0f + exponential<T>(-value));
    // end of hole: expression
}

// All loads of a thread are on their way before the first is used. Index holds as many elements as there are.
template <typename T, int kBlock, int kElements, typename Index>
__global__ void __launch_bounds__(kBlock)
    apply(T* out, const T* input, const T* residual, Index count, float scale, float shift) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    const Bits* const inputs = reinterpret_cast<const Bits*>(input);
    const Bits* const residuals = reinterpret_cast<const Bits*>(residual);
    Bits* const to = reinterpret_cast<Bits*>(out);
    const Index vectors = count / kElements;
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
    Unit values[kUnroll];
    Unit others[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < vectors) {
            values[i].bits = load(inputs + place);
            others[i].bits = load(residuals + place);
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < vectors) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                values[i].set(j, expression<T>(values[i].get(j), others[i].get(j), scale, shift));
            }
            store(to + place, values[i].bits);
        }
    }
    // What is no whole vector: by the first threads of all.
    const Index single = vectors * kElements + start;
    if (start < kElements && single < count) {
        from_float(expression<T>(to_float(input[single]), to_float(residual[single]), scale, shift), out[single]);
    }
}

}  // namespace elementwise
