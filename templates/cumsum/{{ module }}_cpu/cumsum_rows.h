// The running sums of rows, included by each_isa.h once per instruction set. Owns: the arithmetic of a row. Never:
// chooses the instruction set or the type.
//
// A vector is summed within itself, lanes 1, 2, 4 and 8 apart, and then what was before it is added: from one vector to
// the next no more than one addition has to wait. A row has one thread: a single long row is not divided.

namespace KERNEL_ISA {

// Lanes move up by kBy, and zeros come in.
template <int kBy>
KERNEL_INLINE Floats moved_up(Floats value) {
#if KERNEL_X86 == 512
    return (Floats)_mm512_maskz_alignr_epi32(0xffff, (__m512i)value, _mm512_setzero_si512(), 16 - kBy);
#elif KERNEL_X86 == 256
    const __m256 low = _mm256_permute2f128_ps((__m256)value, (__m256)value, 0x08);
    if constexpr (kBy == 4) {
        return (Floats)low;
    } else {
        return (Floats)_mm256_alignr_epi8((__m256i)value, _mm256_castps_si256(low), 16 - 4 * kBy);
    }
#elif defined(__clang__)
    return __builtin_shufflevector(Floats{}, value, 4 - kBy, 5 - kBy, 6 - kBy, 7 - kBy);
#else
    return __builtin_shuffle(Floats{}, value, Mask{4 - kBy, 5 - kBy, 6 - kBy, 7 - kBy});
#endif
}

KERNEL_INLINE Floats last_in_all(Floats value) {
#if KERNEL_X86 == 512
    return (Floats)_mm512_maskz_permutexvar_ps(0xffff, _mm512_set1_epi32(15), (__m512)value);
#elif KERNEL_X86 == 256
    return (Floats)_mm256_permutevar8x32_ps((__m256)value, _mm256_set1_epi32(7));
#elif defined(__clang__)
    return __builtin_shufflevector(value, value, 3, 3, 3, 3);
#else
    return __builtin_shuffle(value, Mask{3, 3, 3, 3});
#endif
}

KERNEL_INLINE Floats running(Floats value) {
    value += moved_up<1>(value);
    value += moved_up<2>(value);
    if constexpr (kLanes > 4) {
        value += moved_up<4>(value);
    }
#if KERNEL_X86 == 512
    value += moved_up<8>(value);
#endif
    return value;
}

// `before` is the sum of all earlier elements, in every lane, and becomes that of these, too. A load of bfloat16 has
// elements of even places in one vector and those of odd ones in another: sums of neighbors are the running sums of odd
// places, and what is before them, plus the element itself, those of even ones.
template <typename Type>
KERNEL_INLINE Block<Type::kParts> summed(Block<Type::kParts> block, Floats& before) {
    if constexpr (Type::kParts == 2) {
        const Floats sums = running(block.part[0] + block.part[1]);
        block.part[0] += before + moved_up<1>(sums);
        block.part[1] = before + sums;
        before += last_in_all(sums);
    } else {
        const Floats sums = running(block.part[0]);
        block.part[0] = before + sums;
        before += last_in_all(sums);
    }
    return block;
}

template <typename Type>
KERNEL_TARGET void pieces(const CumsumCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    for (int64_t row = first; row < last; ++row) {
        const Storage* const from = static_cast<const Storage*>(call.input) + row * call.hidden;
        Storage* const to = static_cast<Storage*>(call.out) + row * call.hidden;
        Floats before = {};
        int64_t column = 0;
        for (; column + Type::kElements <= call.hidden; column += Type::kElements) {
            Type::store(to + column, summed<Type>(Type::load(from + column), before));
        }
        if (column < call.hidden) {
            const int64_t count = call.hidden - column;
            store_tail<Type>(to + column, summed<Type>(load_tail<Type>(from + column, count), before), count);
        }
    }
}

} // namespace KERNEL_ISA
