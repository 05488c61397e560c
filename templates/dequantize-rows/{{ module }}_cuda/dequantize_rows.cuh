// 8-bit floats or integers times the scales of their rows.
// Owns: the kernel. Never: chooses among settings; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight. STREAM: whether inputs and results are marked as used once, so that
// they leave the caches first.

#include <cuda_fp8.h>

#include "vector.cuh"

namespace vector {

template <>
struct Word<1> {
    using Type = uint8_t;
};

}  // namespace vector

namespace dequantize_rows {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// The byte `place` of a word as a number.
template <typename Q>
__device__ __forceinline__ float number(uint32_t word, int place);
template <>
__device__ __forceinline__ float number<signed char>(uint32_t word, int place) {
    return static_cast<float>(static_cast<signed char>(word >> (8 * place) & 0xffu));
}
template <>
__device__ __forceinline__ float number<__nv_fp8_e4m3>(uint32_t word, int place) {
    // Every E4M3 number is one of half precision.
    const auto byte = static_cast<__nv_fp8_storage_t>(word >> (8 * place) & 0xffu);
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

// As many bytes as one load moves, and the results of them, in as many stores of 16 bytes as it takes.
template <int kBytes>
struct Bytes {
    using Bits = typename Word<kBytes>::Type;
    union {
        Bits bits;
        // Of the only word of a single byte, the rest is never looked at.
        uint32_t words[(kBytes + 3) / 4];
    };
    __device__ Bytes() { words[0] = 0; }
};

template <typename Out, int kElements>
struct Results {
    static constexpr int kSize = kElements * sizeof(Out);
    static constexpr int kOfOne = kSize > 16 ? 16 : kSize;
    using Bits = typename Word<kOfOne>::Type;
    union {
        Bits bits[kSize / kOfOne];
        Out elements[kElements];
    };
    __device__ Results() {}
};

// Vectors are counted through all rows, so that no thread is idle at the end of one. A row has `length` of them. Index
// holds as many elements as there are.
template <typename Q, typename Out, int kBlock, int kElements, typename Index>
__global__ void __launch_bounds__(kBlock) scaled(Out* out, const Q* q, const float* scale, Index count, Index length) {
    using From = Bytes<kElements>;
    using To = Results<Out, kElements>;
    const typename From::Bits* const from = reinterpret_cast<const typename From::Bits*>(q);
    const Index start = static_cast<Index>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
    From bytes[kUnroll];
    float scales[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
            bytes[i].bits = load(from + place);
            scales[i] = scale[place / length];
        }
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
        const Index place = start + i * kBlock;
        if (place < count) {
            To results;
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                from_float(number<Q>(bytes[i].words[j / 4], j % 4) * scales[i], results.elements[j]);
            }
            typename To::Bits* const to = reinterpret_cast<typename To::Bits*>(out + place * kElements);
#pragma unroll
            for (int j = 0; j < To::kSize / To::kOfOne; ++j) {
                store(to + j, results.bits[j]);
            }
        }
    }
}

}  // namespace dequantize_rows
