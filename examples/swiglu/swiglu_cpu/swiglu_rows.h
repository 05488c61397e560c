// SwiGLU, included by each_isa.h once per instruction set. Owns: the activation. Never: chooses the instruction set or
// the type.

#include "exponentials.h"
#include "gated.h"

namespace KERNEL_ISA {

struct Silu {
    KERNEL_INLINE Floats operator()(Floats gate) const { return logistic_gate(gate, magnitude(gate)); }
};

template <typename Type>
KERNEL_TARGET void pieces(const SwigluCall& call, int64_t first, int64_t last) {
    gate_pieces<Type>(call.out, call.input, call.hidden, first, last, Silu{});
}

} // namespace KERNEL_ISA
