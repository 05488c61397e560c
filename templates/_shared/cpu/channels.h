// A channel of a normalisation, included by the body of a kernel once per instruction set, after moments.h. Owns: the
// moments of what is longer than a cache, and the places of a channel. Never: knows which channels are normalised
// together.

namespace KERNEL_ISA {

// As moments(), for any length: pieces are read twice while they lie in the first-level cache, and joined as in Chan,
// Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979).
template <typename Type>
KERNEL_INLINE Moments moments_of_pieces(const typename Type::Storage* from, int64_t length, double eps) {
    constexpr int64_t kPiece = 16384 / sizeof(typename Type::Storage);
    double mean = 0.0;
    double squares = 0.0;
    for (int64_t first = 0; first < length; first += kPiece) {
        const int64_t count = length - first < kPiece ? length - first : kPiece;
        const float of_piece = row_sum<Type>(from + first, count, Itself{}) / static_cast<float>(count);
        const float around = row_sum<Type>(from + first, count, SquareAround{splat(of_piece)});
        const double apart = static_cast<double>(of_piece) - mean;
        const double share = static_cast<double>(count) / static_cast<double>(first + count);
        mean += apart * share;
        squares += static_cast<double>(around) + apart * apart * share * static_cast<double>(first);
    }
    const float variance = static_cast<float>(squares / static_cast<double>(length));
    return {static_cast<float>(mean), 1.0f / std::sqrt(variance + static_cast<float>(eps))};
}

// The one element of a channel, which a tensor has for each; `otherwise` without the tensor.
template <typename Type>
KERNEL_INLINE Floats of_channel(const void* tensor, int64_t channel, float otherwise) {
    if (tensor == nullptr) {
        return splat(otherwise);
    }
    const Block<Type::kParts> one = load_tail<Type>(static_cast<const typename Type::Storage*>(tensor) + channel, 1);
    return splat(lanes_first(one.part[0]));
}

template <typename Type>
KERNEL_INLINE Block<Type::kParts> normalised_places(Block<Type::kParts> block, const Moments& of, Floats weight,
                                                    Floats bias) {
    for (int64_t part = 0; part < Type::kParts; ++part) {
        block.part[part] = multiply_add((block.part[part] - of.mean) * of.scale, weight, bias);
    }
    return block;
}

template <typename Type>
KERNEL_INLINE void normalise_places(typename Type::Storage* to, const typename Type::Storage* from, int64_t length,
                                    const Moments& of, Floats weight, Floats bias) {
    int64_t place = 0;
    for (; place + Type::kElements <= length; place += Type::kElements) {
        Type::store(to + place, normalised_places<Type>(Type::load(from + place), of, weight, bias));
    }
    if (place < length) {
        const int64_t count = length - place;
        store_tail<Type>(to + place,
                         normalised_places<Type>(load_tail<Type>(from + place, count), of, weight, bias), count);
    }
}

} // namespace KERNEL_ISA
