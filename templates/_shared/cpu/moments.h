// The mean of a row and its deviations from it, included by the body of a kernel once per instruction set.
// Owns: both sums. Never: knows what a row is normalised for.

namespace KERNEL_ISA {

struct Itself {
    KERNEL_INLINE Floats operator()(Floats value) const { return value; }
};

struct SquareAround {
    Floats mean;
    KERNEL_INLINE Floats operator()(Floats value) const {
        const Floats deviation = value - mean;
        return deviation * deviation;
    }
};

struct Moments {
    float mean;
    // One over the root of the variance plus eps.
    float scale;
};

// The deviations are squared once the mean is known, while the row lies in a cache: the difference of the mean square
// and the squared mean would lose what a row has in common.
template <typename Type>
KERNEL_INLINE Moments moments(const typename Type::Storage* row, int64_t hidden, double eps) {
    const float mean = row_sum<Type>(row, hidden, Itself{}) / static_cast<float>(hidden);
    const float variance = row_sum<Type>(row, hidden, SquareAround{splat(mean)}) / static_cast<float>(hidden);
    return {mean, 1.0f / std::sqrt(variance + static_cast<float>(eps))};
}

} // namespace KERNEL_ISA
