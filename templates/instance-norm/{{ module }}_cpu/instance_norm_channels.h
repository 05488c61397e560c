// The channels of an instance normalisation, included by each_isa.h once per instruction set. Owns: which channel a piece
// is. Never: chooses the instruction set or the type.
//
// A channel of a sample has one thread: a single long one is not divided.

#include "moments.h"

#include "channels.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_TARGET void pieces(const InstanceNormCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    for (int64_t piece = first; piece < last; ++piece) {
        const int64_t channel = piece % call.channels;
        const Storage* const from = static_cast<const Storage*>(call.input) + piece * call.spatial;
        Storage* const to = static_cast<Storage*>(call.out) + piece * call.spatial;
        const Moments of = moments_of_pieces<Type>(from, call.spatial, call.eps);
        normalise_places<Type>(to, from, call.spatial, of, of_channel<Type>(call.weight, channel, 1.0f),
                               of_channel<Type>(call.bias, channel, 0.0f));
    }
}

} // namespace KERNEL_ISA
