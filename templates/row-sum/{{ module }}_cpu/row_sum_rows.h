// The sums of rows, included by each_isa.h once per instruction set. Owns: the arithmetic of a row. Never: chooses the
// instruction set or the type.
//
// A row has one thread: a single long row is not divided.

namespace KERNEL_ISA {

struct Itself {
    KERNEL_INLINE Floats operator()(Floats value) const { return value; }
};

template <typename Type>
KERNEL_TARGET void pieces(const RowSumCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        const float sum = row_sum<Type>(from, call.hidden, Itself{});
        store_one<Type>(static_cast<Storage*>(call.out) + row,
                        call.mean ? sum / static_cast<float>(call.hidden) : sum);
    }
}

} // namespace KERNEL_ISA
