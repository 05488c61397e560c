// Normalisation of each channel of each sample.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// UNROLL: how many vectors a thread has in flight of a channel that is not held. STREAM: whether what is not read again
// is marked so, and leaves the caches first.

#include "channel.cuh"

namespace instance_norm {

using namespace channel;
// That of `vector` is of rows.
using channel::Slice;

// What is done to the elements of a channel once its mean is known, and the factor that makes its variance 1.
template <typename T>
struct Affine {
    float mean;
    float scale;
    float shift;

    __device__ Affine(const T* weight, const T* bias, int64_t row, int channels, float mean, float factor)
        : mean(mean), scale(factor), shift(0.0f) {
        const int64_t channel = row % channels;
        if (weight != nullptr) {
            scale *= to_float(weight[channel]);
        }
        if (bias != nullptr) {
            shift = to_float(bias[channel]);
        }
    }
    template <int kElements>
    __device__ __forceinline__ void apply(Vector<T, kElements>& unit) const {
#pragma unroll
        for (int j = 0; j < kElements; ++j) {
            unit.set(j, (unit.get(j) - mean) * scale + shift);
        }
    }
};

// Channels that their threads hold: up to kUnits vectors a thread. kLanes threads have a channel, or at most that many,
// which is all of a block, where it is more than a warp. Deviations are squared once the mean is known.
template <typename T, int kUnits, int kLanes, bool kEven>
__global__ void __launch_bounds__(kLanes > kWarp ? kLanes : 128)
    held(T* out, const T* input, const T* weight, const T* bias, long long rows, int channels, int spatial, float eps) {
    using Unit = typename Slice<T, kEven>::Unit;
    const int lanes = kLanes > kWarp ? blockDim.x : kLanes;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * (kLanes > kWarp ? 1 : 128 / kLanes);
    const int64_t row = kLanes > kWarp ? first : first + threadIdx.x / kLanes;
    const int lane = kLanes > kWarp ? threadIdx.x : threadIdx.x % kLanes;
    const int length = spatial;
    const Slice<T, kEven> slice(row * length, length);
    const int vectors = row < rows ? slice.vectors() : 0;
    Unit held[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < vectors) {
            held[i] = slice.read(input, lane + i * lanes, false);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < vectors) {
            sum += held[i].sum();
            forget(held[i].bits);
        }
    }
    const float mean = part_sum<kLanes, 0>(sum) / length;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < vectors) {
            squares += slice.squares(held[i], lane + i * lanes, mean);
            forget(held[i].bits);
        }
    }
    const float factor = rsqrtf(part_sum<kLanes, 1>(squares) / length + eps);
    const Affine<T> affine(weight, bias, row, channels, mean, factor);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
        if (lane + i * lanes < vectors) {
            affine.apply(held[i]);
            slice.write(out, lane + i * lanes, held[i]);
        }
    }
}

// What is known of each part.
template <typename T, int kBlock, bool kEven>
__global__ void __launch_bounds__(kBlock) find_parts(float* found, const T* input, int length, int parts) {
    channel::find_parts<T, kBlock, kEven>(found, input, length, parts);
}

// The results of each part. Blocks go the other way, since what was read last is in the caches.
template <typename T, int kBlock, bool kEven>
__global__ void __launch_bounds__(kBlock)
    write_parts(T* out, const T* input, const T* weight, const T* bias, const float* found, int parts,
                int channels, int spatial, float eps) {
    using Unit = typename Slice<T, kEven>::Unit;
    const unsigned block = gridDim.x - 1 - blockIdx.x;
    const int64_t row = block / static_cast<unsigned>(parts);
    const int part = static_cast<int>(block % static_cast<unsigned>(parts));
    const int length = spatial;
    const int begin = begin_of(length, parts, part);
    Known known = {0.0f, 0.0f, 0.0f};
    for (int other = threadIdx.x; other < parts; other += kBlock) {
        const float* const of_part = found + 2 * (row * parts + other);
        const int count = begin_of(length, parts, other + 1) - begin_of(length, parts, other);
        known = joined(known, Known{static_cast<float>(count), of_part[0], of_part[1]});
    }
    known = over_block(known);
    const float mean = known.mean;
    const float factor = rsqrtf(known.squares / length + eps);
    const Affine<T> affine(weight, bias, row, channels, mean, factor);
    const Slice<T, kEven> slice(row * length + begin, begin_of(length, parts, part + 1) - begin);
    const int vectors = begin < length ? slice.vectors() : 0;
    for (int start = threadIdx.x; start < vectors; start += kBlock * kUnroll) {
        Unit units[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < vectors) {
                units[i] = slice.read(input, start + i * kBlock, false);
            }
        }
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
            if (start + i * kBlock < vectors) {
                affine.apply(units[i]);
                slice.write(out, start + i * kBlock, units[i]);
            }
        }
    }
}

}  // namespace instance_norm
