// RMS normalization, then 8-bit integers with a scale for each row.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// The root of a row divides every value of it, so it cancels in the quotients: they are rounded as exact ones are.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace norm8 {

constexpr double kEps = 1e-6;
// Of a float quotient of at most 127 it is known that its error is far less than this.
constexpr float kDoubt = 1e-3f;
constexpr int kWarp = 32;

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void from_float(float value, float& to) { to = value; }
__device__ __forceinline__ void from_float(float value, __half& to) { to = __float2half_rn(value); }
__device__ __forceinline__ void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

// As many bytes as one access moves.
template <int kBytes>
struct Word;
template <>
struct Word<2> {
    using Type = uint16_t;
};
template <>
struct Word<4> {
    using Type = uint32_t;
};
template <>
struct Word<8> {
    using Type = uint2;
};
template <>
struct Word<16> {
    using Type = uint4;
};

template <typename T, int kElements>
struct Vector {
    using Bits = typename Word<kElements * sizeof(T)>::Type;
    union {
        Bits bits;
        T elements[kElements];
    };
    __device__ Vector() {}
};

// Products of two values are exact in this type.
template <typename T>
struct Exact {
    using Type = float;
};
template <>
struct Exact<float> {
    using Type = double;
};

template <typename T>
__device__ __forceinline__ typename Exact<T>::Type product(T one, T other) {
    using Type = typename Exact<T>::Type;
    return static_cast<Type>(to_float(one)) * static_cast<Type>(to_float(other));
}

// NaN is larger than anything.
template <typename Value>
__device__ __forceinline__ Value larger(Value one, Value other) {
    return one > other || one != one ? one : other;
}

// The sum of squares of a row, and its largest product.
template <typename Value>
struct Row {
    float squares;
    Value largest;

    __device__ void join(float other_squares, Value other_largest) {
        squares += other_squares;
        largest = larger(largest, other_largest);
    }
};

// Over the block, known to all of its threads.
template <int kBlock, typename Value>
__device__ __forceinline__ Row<Value> over_block(Row<Value> row) {
    __shared__ float squares[kWarp];
    __shared__ Value largest[kWarp];
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        row.join(__shfl_xor_sync(0xffffffffu, row.squares, offset), __shfl_xor_sync(0xffffffffu, row.largest, offset));
    }
    if constexpr (kBlock == kWarp) {
        return row;
    }
    if (threadIdx.x % kWarp == 0) {
        squares[threadIdx.x / kWarp] = row.squares;
        largest[threadIdx.x / kWarp] = row.largest;
    }
    __syncthreads();
    row = {squares[0], largest[0]};
#pragma unroll
    for (int warp = 1; warp < kBlock / kWarp; ++warp) {
        row.join(squares[warp], largest[warp]);
    }
    return row;
}

// Makes integers of the values of a row.
template <typename T>
struct Code {
    double largest;
    float factor;
    bool is_finite;

    __device__ explicit Code(double largest) : largest(largest) {
        is_finite = largest > 0.0 && largest < infinity();
        factor = static_cast<float>(127.0 / largest);
    }

    // The product in double, the quotient as the reference has it.
    __device__ __noinline__ int exactly(T value, T weight) const {
        const double scaled = static_cast<double>(to_float(value)) * static_cast<double>(to_float(weight));
        return static_cast<int>(rint(__dmul_rn(scaled, 127.0) / largest));
    }

    __device__ int operator()(T value, T weight) const {
        if (!is_finite) {
            return 0;
        }
        const float quotient = to_float(value) * to_float(weight) * factor;
        const float rounded = rintf(quotient);
        // Near a half, or where a float has overflowed, the exact quotient decides.
        const float from_half = fabsf(fabsf(quotient - rounded) - 0.5f);
        if (!(from_half > kDoubt) || !(largest > 1e-25) || !(largest < 1e30)) {
            return exactly(value, weight);
        }
        return static_cast<int>(rounded);
    }
};

template <typename Value>
__device__ __forceinline__ float scale_of(const Row<Value>& row, double largest, long long hidden) {
    return static_cast<float>(largest * rsqrt(static_cast<double>(row.squares) / hidden + kEps) / 127.0);
}

// A row in the registers of one block, read once: kUnits vectors a thread.
template <typename T, int kBlock, int kElements, int kUnits>
__global__ void __launch_bounds__(kBlock)
    held(int8_t* q, float* scale, const T* x, const T* weight, int hidden) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    using Value = typename Exact<T>::Type;
    using Bytes = Vector<int8_t, kElements>;
    const int64_t row = blockIdx.x;
    const int length = hidden / kElements;
    const Bits* const from = reinterpret_cast<const Bits*>(x) + row * length;
    const Bits* const weights = reinterpret_cast<const Bits*>(weight);
    Unit units[kUnits], factors[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * kBlock;
        if (place < length) {
            units[i].bits = __ldcs(from + place);
            factors[i].bits = weights[place];
        }
    }
    Row<Value> found = {0.0f, Value(0)};
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (threadIdx.x + i * kBlock < length) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                const float value = to_float(units[i].elements[j]);
                const Value scaled = product(units[i].elements[j], factors[i].elements[j]);
                found.join(value * value, scaled < Value(0) ? -scaled : scaled);
            }
        }
    }
    found = over_block<kBlock>(found);
    double largest = static_cast<double>(found.largest);
    if (sizeof(T) == 2 && !(found.largest > Value(1e-25) && found.largest < Value(1e30))) {
        // Products of tiny and of huge values are no floats.
        double exact = 0.0;
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            if (threadIdx.x + i * kBlock < length) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const double one = to_float(units[i].elements[j]);
                    exact = larger(exact, fabs(one * static_cast<double>(to_float(factors[i].elements[j]))));
                }
            }
        }
        __syncthreads();
        largest = over_block<kBlock>(Row<double>{0.0f, exact}).largest;
    }
    const Code<T> code(largest);
    auto* const to = reinterpret_cast<typename Bytes::Bits*>(q) + row * length;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        const int place = threadIdx.x + i * kBlock;
        if (place < length) {
            Bytes bytes;
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                bytes.elements[j] = static_cast<int8_t>(code(units[i].elements[j], factors[i].elements[j]));
            }
            __stcs(to + place, bytes.bits);
        }
    }
    if (threadIdx.x == 0) {
        scale[row] = scale_of(found, largest, hidden);
    }
}

// Any row: for what the integers depend on, and for the integers.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    read_twice(int8_t* q, float* scale, const T* x, const T* weight, long long hidden) {
    const int64_t row = blockIdx.x;
    const T* const from = x + row * hidden;
    Row<double> found = {0.0f, 0.0};
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        const float value = to_float(from[column]);
        found.join(value * value, fabs(static_cast<double>(value) * static_cast<double>(to_float(weight[column]))));
    }
    found = over_block<kBlock>(found);
    const Code<T> code(found.largest);
    for (int64_t column = threadIdx.x; column < hidden; column += kBlock) {
        q[row * hidden + column] = static_cast<int8_t>(code(from[column], weight[column]));
    }
    if (threadIdx.x == 0) {
        scale[row] = scale_of(found, found.largest, hidden);
    }
}

}  // namespace norm8
