// The rate of matrix products on compute capabilities 8.x and 12.x: mma.sync of 16 x 8 sums, all operands in registers.
//
// Eight products of a warp that do not wait for each other. What is in operands.cuh comes before this text.

namespace ceiling {

#define PRODUCT(shape, constraint)                                                                                    \
    asm volatile("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                 \
                 : constraint(sum[0]), constraint(sum[1]), constraint(sum[2]), constraint(sum[3])                     \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]))

template <typename Kind>
__device__ void product(float (&sum)[4], const unsigned (&left)[4], const unsigned (&right)[2]) {
    if constexpr (same<Kind, Bf16>) {
        PRODUCT("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
    } else if constexpr (same<Kind, F16>) {
        PRODUCT("m16n8k16.row.col.f32.f16.f16.f32", "+f");
    } else if constexpr (same<Kind, Tf32>) {
        PRODUCT("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
    } else {
        PRODUCT("m16n8k32.row.col.f32.e4m3.e4m3.f32", "+f");
    }
}

template <typename Kind>
__device__ void product(int (&sum)[4], const unsigned (&left)[4], const unsigned (&right)[2]) {
    PRODUCT("m16n8k32.row.col.s32.s8.s8.s32", "+r");
}

__device__ unsigned bits(float sum) { return __float_as_uint(sum); }
__device__ unsigned bits(int sum) { return static_cast<unsigned>(sum); }

template <typename Kind>
struct SumOf {
    using Type = float;
};
template <>
struct SumOf<S8> {
    using Type = int;
};

// 8 `loops` products in every warp. Leaves two totals of every thread: each of one place in all eight sums.
template <typename Kind>
__global__ void __launch_bounds__(256) products(unsigned* out, int loops, int seed) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned operands[6];
    for (unsigned at = 0; at < 6; ++at) operands[at] = operand<Kind>(6 * thread + at, seed);
    const unsigned left[4] = {operands[0], operands[1], operands[2], operands[3]};
    const unsigned right[2] = {operands[4], operands[5]};
    typename SumOf<Kind>::Type sums[8][4] = {};
    for (int loop = 0; loop < loops; ++loop) {
#pragma unroll
        for (int one = 0; one < 8; ++one) product<Kind>(sums[one], left, right);
    }
    typename SumOf<Kind>::Type first = 0, last = 0;
    for (int one = 0; one < 8; ++one) {
        first += sums[one][0];
        last += sums[one][3];
    }
    out[2 * thread] = bits(first);
    out[2 * thread + 1] = bits(last);
}

}  // namespace ceiling
