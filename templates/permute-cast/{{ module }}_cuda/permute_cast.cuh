// Swaps the two middle axes of four, and casts.
// Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// UNROLL: tokens of which a thread moves the same place. STREAM: whether inputs and results are marked as used once, so
// that they leave the caches first.

#include "vector.cuh"

namespace permute_cast {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// As many elements as one store moves, by as many loads of 16 bytes as it takes.
template <typename T, int kElements>
struct Piece {
    static constexpr int kOfOne = kElements * sizeof(T) > 16 ? 16 / sizeof(T) : kElements;
    using Unit = Vector<T, kOfOne>;
    using Bits = typename Unit::Bits;
    Unit units[kElements / kOfOne];

    __device__ Piece() {}
    __device__ __forceinline__ void read(const T* from) {
#pragma unroll
        for (int i = 0; i < kElements / kOfOne; ++i) {
            units[i].bits = load(reinterpret_cast<const Bits*>(from) + i);
        }
    }
    __device__ __forceinline__ float get(int place) const { return units[place / kOfOne].get(place % kOfOne); }
};

// A thread has one place of a token, a vector of one of its heads, and moves it for kUnroll tokens in a row: it divides
// once, and all its loads are on their way at once. A head has `length` vectors; `parts` blocks share a token.
template <typename T, typename Out, int kBlock, int kElements>
__global__ void __launch_bounds__(kBlock)
    permute(Out* out, const T* input, long long tokens, int heads, int length, int parts) {
    const unsigned chunk = blockIdx.x / static_cast<unsigned>(parts);
    const int place = static_cast<int>(blockIdx.x % static_cast<unsigned>(parts)) * kBlock + threadIdx.x;
    if (place >= heads * length) {
        return;
    }
    const unsigned chunks = static_cast<unsigned>((tokens + kUnroll - 1) / kUnroll);
    const int64_t batch = chunk / chunks;
    const int64_t token = static_cast<int64_t>(chunk % chunks) * kUnroll;
    const int head = place / length;
    const int within = place % length;
    const int64_t row = static_cast<int64_t>(heads) * length * kElements;
    const T* const from = input + (batch * tokens + token) * row + static_cast<int64_t>(place) * kElements;
    Piece<T, kElements> pieces[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        if (token + i < tokens) {
            pieces[i].read(from + i * row);
        }
    }
    using To = Vector<Out, kElements>;
    using Bits = typename To::Bits;
    Bits* const to = reinterpret_cast<Bits*>(out) + ((batch * heads + head) * tokens + token) * length + within;
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        if (token + i < tokens) {
            To cast;
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                cast.set(j, pieces[i].get(j));
            }
            store(to + static_cast<int64_t>(i) * length, cast.bits);
        }
    }
}

}  // namespace permute_cast
