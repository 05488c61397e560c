// The tokens of a rotary embedding of a video, included by each_isa.h once per instruction set. Owns: which angles a
// token has. Never: chooses the instruction set or the type.
//
// A position below zero counts from the end of the table, as in PyTorch. One that the table does not have makes the pairs
// that turn with it NaN: memory beyond the table is not read.

#include "rotation.h"

namespace KERNEL_ISA {

// A row of a float32 table for time, one for height and one for width; `ends` are the pairs behind the last one of each.
template <typename Type>
struct VideoAngles {
    const float* rows[3];
    int64_t ends[3];
    int64_t half;

    // `count` numbers from `offset` of each row on, as many pairs after the first.
    KERNEL_INLINE void copy(float* to, int64_t offset, int64_t first, int64_t count) const {
        int64_t done = 0;
        for (int64_t way = 0; way < 3; ++way) {
            const int64_t end = ends[way] - first < count ? ends[way] - first : count;
            if (end > done && rows[way] != nullptr) {
                std::memcpy(to + done, rows[way] + offset + first + done, (end - done) * sizeof *to);
            } else {
                for (int64_t i = done; i < end; ++i) {
                    to[i] = std::numeric_limits<float>::quiet_NaN();
                }
            }
            done = end > done ? end : done;
        }
    }

    KERNEL_INLINE void lanes(float* cosines, float* sines, int64_t first, int64_t count) const {
        copy(cosines, 0, first, count);
        copy(sines, half, first, count);
    }

    KERNEL_INLINE Pair<Type> blocks(int64_t first, int64_t count) const {
        float cosines[Type::kElements] = {};
        float sines[Type::kElements] = {};
        lanes(cosines, sines, first, count);
        return {as_loaded(cosines), as_loaded(sines)};
    }

    // A load of bfloat16 has elements of even places in one vector and those of odd ones in another.
    KERNEL_INLINE static Block<Type::kParts> as_loaded(const float* in_order) {
        float parts[Type::kElements];
        for (int64_t i = 0; i < Type::kElements; ++i) {
            parts[i % Type::kParts * kLanes + i / Type::kParts] = in_order[i];
        }
        Block<Type::kParts> block;
        for (int64_t part = 0; part < Type::kParts; ++part) {
            block.part[part] = load_floats(parts + part * kLanes);
        }
        return block;
    }
};

template <typename Type>
KERNEL_INLINE void rotate(void* out, const void* in, int64_t token, int64_t heads, const Rope3dCall& call,
                          const VideoAngles<Type>& angles) {
    using Storage = typename Type::Storage;
    Storage* const to = static_cast<Storage*>(out) + token * heads * call.dim;
    const Storage* const from = static_cast<const Storage*>(in) + token * heads * call.dim;
    if (call.interleaved) {
        rotate_neighbors<Type>(to, from, heads, call.dim, angles.half, angles);
    } else {
        rotate_halves<Type>(to, from, heads, call.dim, angles.half, angles);
    }
}

template <typename Type>
KERNEL_TARGET void pieces(const Rope3dCall& call, int64_t first, int64_t last) {
    const int64_t* const positions = static_cast<const int64_t*>(call.positions);
    VideoAngles<Type> angles;
    angles.half = call.dim / 2;
    angles.ends[0] = call.time_pairs < angles.half ? call.time_pairs : angles.half;
    const int64_t others = angles.half - angles.ends[0];
    angles.ends[1] = angles.ends[0] + (call.height_pairs < others ? call.height_pairs : others);
    angles.ends[2] = angles.half;
    for (int64_t token = first; token < last; ++token) {
        for (int64_t way = 0; way < 3; ++way) {
            angles.rows[way] = row_of_table<float>(call.cos_sin, call.table, call.dim,
                                                   positions == nullptr ? token : positions[3 * token + way]);
        }
        rotate<Type>(call.q_out, call.q, token, call.heads, call, angles);
        rotate<Type>(call.k_out, call.k, token, call.kv_heads, call, angles);
    }
}

} // namespace KERNEL_ISA
