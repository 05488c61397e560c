// Gradients of rows that were normalised: of the rows, and of the weight and the bias, which are sums over all rows.
// Owns: the kernels, with and without a mean. Never: chooses among them; [launch] does.
//
// No sum is made by atomics, so that every run gives the same: each block adds up the rows that it walks, and `finish`
// adds what the blocks found. With kCentred rows had their mean taken off (layer normalisation), and there is a bias;
// else they had not (root mean square). With kAdded the gradient of the normalised row itself comes on top. With
// kOnePlus rows were scaled by one plus the weight.
//
// AHEAD: whether the next row is on its way while one is worked on. UNROLL: how many elements of a row that is not held
// a thread has in flight. STREAM: as in vector.cuh.

#pragma once

#include "vector.cuh"

namespace normed {

using namespace vector;

// A constant, because not every preprocessor expands macros in pragmas.
constexpr int kUnroll = UNROLL;

// Gradients that are sums over rows: of the weight, and with a mean of the bias.
template <bool kCentred>
constexpr int kSums = kCentred ? 2 : 1;

// What rows were scaled by.
template <bool kOnePlus>
__device__ __forceinline__ float scale_of(float weight) {
    return kOnePlus ? 1.0f + weight : weight;
}

// What is known of a row once it was read: x becomes x - mean, and an element's gradient is
// factor (wg - even - (x - mean) slope), with wg the gradient times the weight.
struct Known {
    float mean;
    float factor;
    float even;
    float slope;
};

// Of the sums of (x - mean)^2, wg (x - mean), and, with a mean, wg.
template <bool kCentred, int kCount>
__device__ __forceinline__ Known known_of(float mean, const float (&sums)[kCount], float hidden, float eps) {
    Known known;
    known.mean = mean;
    known.factor = rsqrtf(sums[0] / hidden + eps);
    known.slope = known.factor * known.factor * sums[1] / hidden;
    known.even = kCentred ? sums[kCount - 1] / hidden : 0.0f;
    return known;
}

// Rows that their threads hold, kUnits vectors of each input a thread. kLanes threads have a row, and a block as many
// rows at a time as it has room for; with 0, the block has one. Each thread has the same columns of all rows that its
// block walks, and adds up for these: in registers, or with kKept in shared memory.
template <bool kCentred, bool kAdded, bool kOnePlus, typename T, int kElements, int kUnits, int kLanes, bool kKept>
__device__ __forceinline__ void walk(
    T* grad_input, float* partial, const T* grad_out, const T* grad_sum, const T* input, const T* weight,
    int64_t rows, int hidden, float eps) {
    using Unit = Vector<T, kElements>;
    using Bits = typename Unit::Bits;
    constexpr int kCount = kCentred ? 3 : 2;
    constexpr int kHeld = kKept ? 1 : kUnits;
    __shared__ float memory[2][3 * kWarp];
    extern __shared__ float4 kept[];

    const int lanes = kLanes > 0 ? kLanes : blockDim.x;
    const int groups = kLanes > 0 ? blockDim.x / lanes : 1;
    const int group = kLanes > 0 ? threadIdx.x / lanes : 0;
    const int lane = kLanes > 0 ? threadIdx.x % lanes : threadIdx.x;
    const int vectors = hidden / kElements;
    const Bits* const gradients = reinterpret_cast<const Bits*>(grad_out);
    const Bits* const added = reinterpret_cast<const Bits*>(grad_sum);
    const Bits* const inputs = reinterpret_cast<const Bits*>(input);
    const Bits* const weights = reinterpret_cast<const Bits*>(weight);
    Bits* const to = reinterpret_cast<Bits*>(grad_input);

    float of_weight[kHeld][kElements];
    float of_bias[kHeld][kElements];
    Unit weight_of[kHeld];
    if constexpr (kKept) {
        for (int i = threadIdx.x; i < kSums<kCentred> * (kElements / 4) * vectors; i += blockDim.x) {
            kept[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        __syncthreads();
    } else {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
#pragma unroll
            for (int j = 0; j < kElements; ++j) {
                of_weight[i][j] = 0.0f;
                of_bias[i][j] = 0.0f;
            }
            if (lane + i * lanes < vectors) {
                weight_of[i].bits = weights[lane + i * lanes];
            }
        }
    }

    const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
    int64_t row = static_cast<int64_t>(blockIdx.x) * groups + group;
    Unit x[kUnits];
    Unit g[kUnits];
#if AHEAD
    if constexpr (!kKept) {
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (row < rows && place < vectors) {
                x[i].bits = load(inputs + row * vectors + place);
                g[i].bits = load(gradients + row * vectors + place);
            }
        }
    }
#endif
    int turn = 0;
    // All threads of a block go around as often as the first group, whose rows are the first.
    for (int64_t first = row - group; first < rows; first += step, row += step) {
        const int length = row < rows ? vectors : 0;
        Unit next_x[kHeld];
        Unit next_g[kHeld];
        Unit plus[kAdded ? kHeld : 1];
        bool is_ahead = false;
#if AHEAD
        is_ahead = !kKept;
        if constexpr (!kKept) {
#pragma unroll
            for (int i = 0; i < kUnits; ++i) {
                const int place = lane + i * lanes;
                if (row + step < rows && place < vectors) {
                    next_x[i].bits = load(inputs + (row + step) * vectors + place);
                    next_g[i].bits = load(gradients + (row + step) * vectors + place);
                }
            }
        }
#endif
        if (!is_ahead) {
#pragma unroll
            for (int i = 0; i < kUnits; ++i) {
                const int place = lane + i * lanes;
                if (place < length) {
                    x[i].bits = load(inputs + row * vectors + place);
                    g[i].bits = load(gradients + row * vectors + place);
                }
            }
        }
        if constexpr (kAdded && !kKept) {
#pragma unroll
            for (int i = 0; i < kUnits; ++i) {
                const int place = lane + i * lanes;
                if (place < length) {
                    plus[i].bits = load(added + row * vectors + place);
                }
            }
        }

        float mean = 0.0f;
        if constexpr (kCentred) {
            float sum[1] = {0.0f};
#pragma unroll
            for (int i = 0; i < kUnits; ++i) {
                if (lane + i * lanes < length) {
#pragma unroll
                    for (int j = 0; j < kElements; ++j) {
                        sum[0] += x[i].get(j);
                    }
                    forget(x[i].bits);
                }
            }
            row_sums<kLanes>(sum, memory[0]);
            mean = sum[0] / hidden;
        }
        float sums[kCount] = {};
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
                Unit by;
                if constexpr (kKept) {
                    by.bits = weights[place];
                } else {
                    by.bits = weight_of[i].bits;
                    forget(by.bits);
                }
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const float deviation = x[i].get(j) - mean;
                    const float weighted = g[i].get(j) * scale_of<kOnePlus>(by.get(j));
                    sums[0] += deviation * deviation;
                    sums[1] += weighted * deviation;
                    if constexpr (kCentred) {
                        sums[2] += weighted;
                    }
                }
                forget(x[i].bits);
                forget(g[i].bits);
            }
        }
        // With a mean, the barrier of its sum lies between two uses of this memory; else they take turns.
        row_sums<kLanes>(sums, memory[kCentred ? 1 : turn]);
        turn ^= 1;
        const Known known = known_of<kCentred>(mean, sums, static_cast<float>(hidden), eps);
#pragma unroll
        for (int i = 0; i < kUnits; ++i) {
            const int place = lane + i * lanes;
            if (place < length) {
                Unit by;
                Unit result;
                if constexpr (kKept) {
                    by.bits = weights[place];
                } else {
                    by.bits = weight_of[i].bits;
                    forget(by.bits);
                }
                if constexpr (kAdded) {
                    if constexpr (kKept) {
                        result.bits = load(added + row * vectors + place);
                    } else {
                        result.bits = plus[i].bits;
                    }
                }
                float to_weight[kElements];
                float to_bias[kElements];
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    const float deviation = x[i].get(j) - known.mean;
                    const float gradient = g[i].get(j);
                    to_weight[j] = gradient * (deviation * known.factor);
                    to_bias[j] = gradient;
                    const float weighted = gradient * scale_of<kOnePlus>(by.get(j));
                    float value = known.factor * (weighted - known.even - deviation * known.slope);
                    if constexpr (kAdded) {
                        value += result.get(j);
                    }
                    result.set(j, value);
                }
                store(to + row * vectors + place, result.bits);
                if constexpr (kKept) {
#pragma unroll
                    for (int j = 0; j < kElements; j += 4) {
                        float4& sum = kept[j / 4 * vectors + place];
                        float4 now = sum;
                        now.x += to_weight[j];
                        now.y += to_weight[j + 1];
                        now.z += to_weight[j + 2];
                        now.w += to_weight[j + 3];
                        sum = now;
                        if constexpr (kCentred) {
                            float4& bias = kept[(kElements + j) / 4 * vectors + place];
                            now = bias;
                            now.x += to_bias[j];
                            now.y += to_bias[j + 1];
                            now.z += to_bias[j + 2];
                            now.w += to_bias[j + 3];
                            bias = now;
                        }
                    }
                } else {
#pragma unroll
                    for (int j = 0; j < kElements; ++j) {
                        of_weight[i][j] += to_weight[j];
                        if constexpr (kCentred) {
                            of_bias[i][j] += to_bias[j];
                        }
                    }
                }
            }
        }
#if AHEAD
        if constexpr (!kKept) {
#pragma unroll
            for (int i = 0; i < kUnits; ++i) {
                x[i].bits = next_x[i].bits;
                g[i].bits = next_g[i].bits;
            }
        }
#endif
    }

    float* const found = partial + static_cast<int64_t>(blockIdx.x) * kSums<kCentred> * hidden;
#pragma unroll
    for (int which = 0; which < kSums<kCentred>; ++which) {
        if constexpr (kKept) {
            for (int i = 0; i < kUnits; ++i) {
                const int place = lane + i * lanes;
                if (place < vectors) {
#pragma unroll
                    for (int j = 0; j < kElements; j += 4) {
                        float4* const at = reinterpret_cast<float4*>(found + which * hidden + place * kElements + j);
                        *at = kept[(which * kElements + j) / 4 * vectors + place];
                    }
                }
            }
        } else {
#pragma unroll
            for (int i = 0; i < kUnits; ++i) {
                const int place = lane + i * lanes;
#pragma unroll
                for (int j = 0; j < kElements; ++j) {
                    float sum = which == 0 ? of_weight[i][j] : of_bias[i][j];
                    if constexpr (kLanes > 0) {
                        // The groups of a block have the same columns.
                        __shared__ float joined[512];
                        __syncthreads();
                        joined[threadIdx.x] = sum;
                        __syncthreads();
                        sum = 0.0f;
                        for (int other = 0; other < groups && group == 0; ++other) {
                            sum += joined[other * lanes + lane];
                        }
                    }
                    of_weight[i][j] = sum;
                }
                if (group == 0 && place < vectors) {
                    float* const at = found + which * hidden + place * kElements;
                    if constexpr (kElements % 4 == 0) {
#pragma unroll
                        for (int j = 0; j < kElements; j += 4) {
                            *reinterpret_cast<float4*>(at + j) = make_float4(
                                of_weight[i][j], of_weight[i][j + 1], of_weight[i][j + 2], of_weight[i][j + 3]);
                        }
                    } else {
#pragma unroll
                        for (int j = 0; j < kElements; ++j) {
                            at[j] = of_weight[i][j];
                        }
                    }
                }
            }
        }
    }
}

// Any row, by one block, which reads it again for each thing that must be known. Its mean and its factor are kept for
// the sums over rows, in `known_of_rows` [rows, 2].
template <bool kCentred, bool kAdded, bool kOnePlus, typename T>
__device__ __forceinline__ void each(
    T* grad_input, float* known_of_rows, const T* grad_out, const T* grad_sum, const T* input, const T* weight,
    int64_t hidden, float eps) {
    constexpr int kCount = kCentred ? 3 : 2;
    __shared__ float memory[2][3 * kWarp];
    const int64_t begin = blockIdx.x * hidden;
    const T* const x = input + begin;
    const T* const g = grad_out + begin;
    const int64_t step = blockDim.x;
    float mean = 0.0f;
    if constexpr (kCentred) {
        float sum[1] = {0.0f};
#pragma unroll kUnroll
        for (int64_t column = threadIdx.x; column < hidden; column += step) {
            sum[0] += to_float(x[column]);
        }
        row_sums<0>(sum, memory[0]);
        mean = sum[0] / hidden;
    }
    float sums[kCount] = {};
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += step) {
        const float deviation = to_float(x[column]) - mean;
        const float weighted = to_float(g[column]) * scale_of<kOnePlus>(to_float(weight[column]));
        sums[0] += deviation * deviation;
        sums[1] += weighted * deviation;
        if constexpr (kCentred) {
            sums[2] += weighted;
        }
    }
    row_sums<0>(sums, memory[1]);
    const Known known = known_of<kCentred>(mean, sums, static_cast<float>(hidden), eps);
    if (threadIdx.x == 0) {
        known_of_rows[2 * blockIdx.x] = known.mean;
        known_of_rows[2 * blockIdx.x + 1] = known.factor;
    }
#pragma unroll kUnroll
    for (int64_t column = threadIdx.x; column < hidden; column += step) {
        const float deviation = to_float(x[column]) - known.mean;
        const float weighted = to_float(g[column]) * scale_of<kOnePlus>(to_float(weight[column]));
        float value = known.factor * (weighted - known.even - deviation * known.slope);
        if constexpr (kAdded) {
            value += to_float(grad_sum[begin + column]);
        }
        from_float(value, grad_input[begin + column]);
    }
}

// Threads of a block in each direction of `columns`, and of `finish`.
constexpr int kWide = kWarp;
constexpr int kHigh = 16;

// The sums over those rows that are this block's, in y, of the columns that are its, in x.
template <bool kCentred, typename T>
__device__ __forceinline__ void columns(
    float* partial, const float* known, const T* grad_out, const T* input, int64_t rows, int64_t hidden) {
    __shared__ float joined[kSums<kCentred>][kHigh][kWide];
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kWide + threadIdx.x;
    const int64_t share = (rows + gridDim.y - 1) / gridDim.y;
    const int64_t begin = share * blockIdx.y;
    const int64_t end = begin + share < rows ? begin + share : rows;
    float sums[kSums<kCentred>] = {};
    if (column < hidden) {
#pragma unroll kUnroll
        for (int64_t row = begin + threadIdx.y; row < end; row += kHigh) {
            const float gradient = to_float(grad_out[row * hidden + column]);
            const float deviation = to_float(input[row * hidden + column]) - known[2 * row];
            sums[0] += gradient * (deviation * known[2 * row + 1]);
            if constexpr (kCentred) {
                sums[1] += gradient;
            }
        }
    }
#pragma unroll
    for (int which = 0; which < kSums<kCentred>; ++which) {
        joined[which][threadIdx.y][threadIdx.x] = sums[which];
    }
    __syncthreads();
    if (threadIdx.y == 0 && column < hidden) {
        for (int which = 0; which < kSums<kCentred>; ++which) {
            float sum = 0.0f;
            for (int other = 0; other < kHigh; ++other) {
                sum += joined[which][other][threadIdx.x];
            }
            partial[(static_cast<int64_t>(blockIdx.y) * kSums<kCentred> + which) * hidden + column] = sum;
        }
    }
}

// The sums of what `parts` blocks found. Zero where there are none.
template <bool kCentred, typename T>
__device__ __forceinline__ void finish(
    T* grad_weight, T* grad_bias, const float* partial, int parts, int64_t hidden) {
    __shared__ float joined[kHigh][kWide];
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kWide + threadIdx.x;
    // Which of the sums.
    const int which = blockIdx.y;
    float sum = 0.0f;
    if (column < hidden) {
#pragma unroll 8
        for (int part = threadIdx.y; part < parts; part += kHigh) {
            sum += partial[(static_cast<int64_t>(part) * kSums<kCentred> + which) * hidden + column];
        }
    }
    joined[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < hidden) {
        sum = 0.0f;
        for (int other = 0; other < kHigh; ++other) {
            sum += joined[other][threadIdx.x];
        }
        from_float(sum, which == 0 ? grad_weight[column] : grad_bias[column]);
    }
}

}  // namespace normed
