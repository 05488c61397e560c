// The channels of a group normalisation, included by each_isa.h once per instruction set. Owns: which group a channel is
// in. Never: chooses the instruction set or the type.
//
// The channels of a thread may begin or end inside a group. Its moments are then found by each of the threads that have
// a part of it, in the same order: results are the same bits for any number of threads. Groups that do not divide the
// channels make everything NaN: memory beyond the input is not read.

#include "moments.h"

#include "channels.h"

namespace KERNEL_ISA {

template <typename Type>
KERNEL_TARGET void pieces(const GroupNormCall& call, int64_t first, int64_t last) {
    using Storage = typename Type::Storage;
    const Storage* const input = static_cast<const Storage*>(call.input);
    Storage* const out = static_cast<Storage*>(call.out);
    if (call.groups < 1 || call.channels % call.groups != 0) {
        for (int64_t i = first * call.spatial; i < last * call.spatial; ++i) {
            out[i] = Type::kNan;
        }
        return;
    }
    // Channels of a group; all samples have as many, so groups are counted through them.
    const int64_t width = call.channels / call.groups;
    for (int64_t piece = first; piece < last;) {
        const int64_t group = piece / width;
        const int64_t end = (group + 1) * width < last ? (group + 1) * width : last;
        const Moments of =
            moments_of_pieces<Type>(input + group * width * call.spatial, width * call.spatial, call.eps);
        for (; piece < end; ++piece) {
            const int64_t channel = piece % call.channels;
            normalise_places<Type>(out + piece * call.spatial, input + piece * call.spatial, call.spatial, of,
                                   of_channel<Type>(call.weight, channel, 1.0f),
                                   of_channel<Type>(call.bias, channel, 0.0f));
        }
    }
}

} // namespace KERNEL_ISA
