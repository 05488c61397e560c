// Which function is for a type of element, included by each_isa.h once per instruction set, after the body.
// Owns: that choice. Never: chooses the instruction set.

namespace KERNEL_ISA {

template <typename Call>
inline Pieces<Call> select(Element type) {
    switch (type) {
    case Element::kF32:
        return pieces<Float32>;
    case Element::kF16:
        return pieces<Float16>;
    case Element::kBF16:
        return pieces<BFloat16>;
    default:
        return nullptr;
    }
}

} // namespace KERNEL_ISA
