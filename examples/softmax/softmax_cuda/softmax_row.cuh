// Gradients of softmax and of its logarithm.
// Owns: the kernels, for any `Rule`. Never: chooses among them; [launch] does.
//
// A `Rule` is one of the two. With kOfPowers the row's sum is that of gradients times powers, exp(value - largest);
// otherwise that of gradients. A rule is made of a row's `Known`, and makes an element's result of its gradient and its power.
// UNROLL: vectors of each input that a thread has in flight in a row that is read twice.

#pragma once

#include "vector.cuh"

namespace softmax_row {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;
// Threads of a block, at most.
constexpr int kBlock = 512;
constexpr float kLargestFinite = 3.402823466e+38f;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// An exponential as a factor. Its root is multiplied twice, because a subnormal exponential has few digits, but the product
// may need all of them.
template <typename T>
struct Power {
    float root;

    __device__ __forceinline__ explicit Power(float exponent) {
        if constexpr (sizeof(T) == 4) {
            root = expf(0.5f * exponent);
        } else {
            // exp(x / 2) is 2 to the x / log(4). The square of a subnormal root is zero anyway.
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(exponent * 0.72134752f));
        }
    }
    __device__ __forceinline__ float times(float value) const { return value * root * root; }
};

// The scale of sums of gradients times powers, which keeps the digits of subnormal ones in float32.
template <typename T>
constexpr float kScale = sizeof(T) == 4 ? 4294967296.0f : 1.0f;

// The largest value, and its gradient where powers are summed, if it is finite.
struct Top {
    float value;
    float gradient;
};

// Of a row, or of a part of it: the sum of its powers, and that of its gradients. If there is no value above minus infinity,
// powers are exp(value), so zero: the difference would be NaN. Gradients that are summed times powers are relative to the
// gradient of the largest value, times kScale: if one power outweighs all others, its gradient is about the mean of all, and
// their difference would lose its digits.
struct Known {
    Top top;
    float sum;
    float gradients;
};

__device__ __forceinline__ Top lowest() { return {minus_infinity(), 0.0f}; }
__device__ __forceinline__ Known nothing() { return {lowest(), 0.0f, 0.0f}; }

// What exponents are relative to.
__device__ __forceinline__ float origin(const Top& top) { return top.value == minus_infinity() ? 0.0f : top.value; }

__device__ __forceinline__ Top larger(const Top& one, const Top& other) {
    return other.value > one.value ? other : one;
}

// The same, relative to the top of more.
template <typename Rule, typename T>
__device__ __forceinline__ Known relative(const Known& known, const Top& top) {
    const Power<T> power(known.top.value - origin(top));
    if constexpr (Rule::kOfPowers) {
        const float moved = known.gradients + known.sum * (kScale<T> * (known.top.gradient - top.gradient));
        return {top, power.times(known.sum), power.times(moved)};
    } else {
        return {top, power.times(known.sum), known.gradients};
    }
}

// Vectors of both inputs that a thread has at a time: one every `step` places from `start` on, those before `end`.
template <typename T, int kElements, int kCount, typename Place>
struct Held {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    Place start;
    int step;
    Place end;
    Unit gradients[kCount];
    Unit values[kCount];

    __device__ __forceinline__ Held(Place start, int step, Place end) : start(start), step(step), end(end) {}
    __device__ __forceinline__ bool has(int i) const { return start + i * step < end; }

    // kOnce: they are not read again.
    template <bool kOnce>
    __device__ __forceinline__ void read(const Bits* grad_out, const Bits* input) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (has(i)) {
                const Place place = start + i * step;
                gradients[i].bits = kOnce ? load(grad_out + place) : grad_out[place];
                values[i].bits = kOnce ? load(input + place) : input[place];
            }
        }
    }

    // Few are kept as float once they were converted.
    __device__ __forceinline__ void forget_floats() {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (kElements * kCount > 16 && has(i)) {
                forget(gradients[i].bits);
                forget(values[i].bits);
            }
        }
    }

    template <typename Rule>
    __device__ __forceinline__ Top top() const {
        Top all = lowest();
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (has(i)) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    all = larger(all, {values[i].get(j), Rule::kOfPowers ? gradients[i].get(j) : 0.0f});
                }
            }
        }
        return {all.value, fabsf(all.gradient) <= kLargestFinite ? all.gradient : 0.0f};
    }

    // To `known`, which no value is above the top of.
    template <typename Rule>
    __device__ __forceinline__ void add_to(Known& known) const {
        const float begin = origin(known.top);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (has(i)) {
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const Power<T> power(values[i].get(j) - begin);
                    known.sum += power.times(1.0f);
                    if constexpr (Rule::kOfPowers) {
                        known.gradients += power.times(kScale<T> * (gradients[i].get(j) - known.top.gradient));
                    } else {
                        known.gradients += gradients[i].get(j);
                    }
                }
            }
        }
    }

    template <typename Rule>
    __device__ __forceinline__ void write(Bits* grad_input, const Rule& rule, float begin) const {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (has(i)) {
                Unit unit;
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    unit.set(j, rule(gradients[i].get(j), Power<T>(values[i].get(j) - begin)));
                }
                store(grad_input + start + i * step, unit.bits);
            }
        }
    }
};

// Over kLanes neighboring threads of a warp, known to all of them. Of equal values the one with the larger gradient is
// on top, so that all threads have the same.
template <typename Rule, typename T, int kLanes>
__device__ __forceinline__ Known over_lanes(Known known) {
    Top top = known.top;
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        const float value = __shfl_xor_sync(0xffffffffu, top.value, offset);
        if constexpr (Rule::kOfPowers) {
            const float gradient = __shfl_xor_sync(0xffffffffu, top.gradient, offset);
            if (value > top.value || (value == top.value && gradient > top.gradient)) {
                top = {value, gradient};
            }
        } else {
            top.value = fmaxf(top.value, value);
        }
    }
    known = relative<Rule, T>(known, top);
    return {top, lanes_sum<kLanes>(known.sum), lanes_sum<kLanes>(known.gradients)};
}

// Over the threads of a row, known to all of them and added in the same order in every run. kLanes neighbors of a warp
// have a row, or, with 0, the block, which is of whole warps.
template <typename Rule, typename T, int kLanes>
__device__ __forceinline__ Known over_row(Known known) {
    if constexpr (kLanes > 0) {
        return over_lanes<Rule, T, kLanes>(known);
    } else {
        constexpr int kWarps = kBlock / kWarp;
        __shared__ Known parts[kWarps];
        const int warp = threadIdx.x / kWarp;
        const int warps = blockDim.x / kWarp;
        known = over_lanes<Rule, T, kWarp>(known);
        if (threadIdx.x % kWarp == 0) {
            parts[warp] = known;
        }
        __syncthreads();
        const int part = threadIdx.x % kWarps;
        return over_lanes<Rule, T, kWarps>(part < warps ? parts[part] : nothing());
    }
}

// Rows that their threads hold, kUnits vectors of each input a thread. kLanes threads have a row, and a block as many
// rows as it has room for; with 0, the block has one.
template <typename Rule, typename T, int kElements, int kUnits, int kLanes>
__device__ __forceinline__ void held(T* grad_input, const T* grad_out, const T* input, int64_t rows, int hidden) {
    using Bits = typename Vector<T, kElements>::Bits;
    const int lanes = kLanes > 0 ? kLanes : blockDim.x;
    const int64_t row =
        kLanes > 0 ? static_cast<int64_t>(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes : blockIdx.x;
    const int lane = kLanes > 0 ? threadIdx.x % lanes : threadIdx.x;
    const int length = row < rows ? hidden / kElements : 0;
    const int64_t begin = row * length;
    Held<T, kElements, kUnits, int> held(lane, lanes, length);
    held.template read<true>(
        reinterpret_cast<const Bits*>(grad_out) + begin, reinterpret_cast<const Bits*>(input) + begin);
    Known known = {held.template top<Rule>(), 0.0f, 0.0f};
    held.forget_floats();
    held.template add_to<Rule>(known);
    held.forget_floats();
    known = over_row<Rule, T, kLanes>(known);
    held.write(reinterpret_cast<Bits*>(grad_input) + begin, Rule(known), origin(known.top));
}

// Any row, by one block: once for what must be known, once more for the results. All vectors that a thread has in
// flight are added at a time: what was known is made relative to another largest value once for all of them.
template <typename Rule, typename T, int kElements>
__device__ __forceinline__ void read_twice(T* grad_input, const T* grad_out, const T* input, int64_t hidden) {
    using Bits = typename Vector<T, kElements>::Bits;
    const Slice<kElements> slice(blockIdx.x * hidden, hidden);
    const Bits* const gradients = reinterpret_cast<const Bits*>(grad_out + slice.aligned());
    const Bits* const values = reinterpret_cast<const Bits*>(input + slice.aligned());
    Bits* const to = reinterpret_cast<Bits*>(grad_input + slice.aligned());
    const int step = blockDim.x;
    Known known = nothing();
    for (int64_t start = threadIdx.x; start < slice.vectors; start += step * kUnroll) {
        Held<T, kElements, kUnroll, int64_t> held(start, step, slice.vectors);
        held.template read<false>(gradients, values);
        known = relative<Rule, T>(known, larger(known.top, held.template top<Rule>()));
        held.forget_floats();
        held.template add_to<Rule>(known);
    }
    const int64_t single = slice.single(threadIdx.x);
    Held<T, 1, 1, int> alone(0, 1, single >= 0 ? 1 : 0);
    if (single >= 0) {
        alone.gradients[0].elements[0] = grad_out[single];
        alone.values[0].elements[0] = input[single];
        known = relative<Rule, T>(known, larger(known.top, alone.template top<Rule>()));
        alone.template add_to<Rule>(known);
    }
    known = over_row<Rule, T, 0>(known);
    const Rule rule(known);
    const float begin = origin(known.top);
    for (int64_t start = threadIdx.x; start < slice.vectors; start += step * kUnroll) {
        Held<T, kElements, kUnroll, int64_t> held(start, step, slice.vectors);
        held.template read<true>(gradients, values);
        held.write(to, rule, begin);
    }
    if (single >= 0) {
        from_float(rule(alone.gradients[0].get(0), Power<T>(alone.values[0].get(0) - begin)), grad_input[single]);
    }
}

}  // namespace softmax_row
