// GEGLU, included by each_isa.h once per instruction set. Owns: both activations. Never: chooses the instruction set or
// the type.

#include "exponentials.h"
#include "gated.h"

namespace KERNEL_ISA {

// 0.5 x (1 + tanh(inner)), which is x / (1 + e^(-2 inner)): nothing cancels in that. The rounding of the exponent
// itself remains: 20 units in the last place at -4, 200 at -10, where the result is 1e-37.
struct GeluByTanh {
    KERNEL_INLINE Floats operator()(Floats gate) const {
        const Floats twice = gate * multiply_add(gate * gate, splat(0.0713548163f), splat(1.59576912f));
        return logistic_gate(gate, magnitude(twice));
    }
};

// x times the normal distribution's share below x. For a size u that is share(-u) = e^(-u^2 / 2) t P(t) with t = 1 / (1
// + 0.3 u) and a polynomial P fitted on 0 <= u <= 14 to a largest error of 3.5e-9 of the result, so that small shares
// are about as accurate as large ones. Error: 7 units in the last place above -4, 10 below.
struct GeluByErf {
    KERNEL_INLINE Floats operator()(Floats gate) const {
        // Beyond 15 the share is 0 or 1. A NaN stays one: larger() gives its second argument then.
        const Floats size = -larger(splat(-15.0f), -magnitude(gate));
        // The square of the upper half of the digits is exact; the rest of the exponent is small.
        const Floats upper = (Floats)((Words)size & 0xfffff000);
        const Floats power = exponential_of_sum(upper * upper * -0.5f, (upper - size) * (upper + size) * 0.5f);
        const Floats t = 1.0f / multiply_add(size, splat(0.3f), splat(1.0f));
        Floats p = multiply_add(splat(-0.02061283588409424f), t, splat(0.11237581074237823f));
        p = multiply_add(p, t, splat(-0.2280675768852234f));
        p = multiply_add(p, t, splat(0.19158177f));
        p = multiply_add(p, t, splat(-0.07924740761518478f));
        p = multiply_add(p, t, splat(0.09605786204338074f));
        p = multiply_add(p, t, splat(0.0784255713224411f));
        p = multiply_add(p, t, splat(0.1102273240685463f));
        p = multiply_add(p, t, splat(0.11957284063100815f));
        p = multiply_add(p, t, splat(0.11968663334846497f));
        const Floats share = power * (p * t);
        return gate * (gate < 0.0f ? share : 1.0f - share);
    }
};

template <typename Type>
KERNEL_TARGET void pieces(const GegluCall& call, int64_t first, int64_t last) {
    if (call.tanh) {
        gate_pieces<Type>(call.out, call.input, call.hidden, first, last, GeluByTanh{});
    } else {
        gate_pieces<Type>(call.out, call.input, call.hidden, first, last, GeluByErf{});
    }
}

} // namespace KERNEL_ISA
