// Owns: a tensor that is added to the scores: how a thread reads its part of a block, ahead of the products.
// Never: the mask.
#pragma once
#include "softmax.cuh"

namespace attention {

// Of four threads beside each other, the i-th gets the i-th word of each.
__device__ __forceinline__ void transpose(unsigned (&words)[4], int lane) {
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    const bool high = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & distance) != 0) continue;
      const unsigned got = __shfl_xor_sync(0xffffffff, high ? words[i] : words[i + distance], distance);
      words[i] = high ? got : words[i];
      words[i + distance] = high ? words[i + distance] : got;
    }
  }
}

// A thread's part of `keys` columns of `bias` [rows, columns]: of two rows, and of each 32 columns, 8 beside each other.
template <typename T, int keys>
struct Added {
  static constexpr bool given = true;
  unsigned words[2][keys / 32][4];

  // `row` is the thread's first row, `column` the first column of the block. Zeros stand for columns outside; rows outside
  // are as the last one.
  __device__ __forceinline__ void load(const T* bias, int row, int column, int rows, int columns) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T* const line = bias + static_cast<long long>(min(row + half * 8, rows - 1)) * columns;
#pragma unroll
      for (int group = 0; group < keys / 32; ++group) {
        const int x = column + group * 32 + threadIdx.x % 4 * 8;
        unsigned(&eight)[4] = words[half][group];
        if (columns % 8 == 0) {
          const uint4 read = x < columns ? *reinterpret_cast<const uint4*>(line + x) : uint4{0, 0, 0, 0};
          eight[0] = read.x, eight[1] = read.y, eight[2] = read.z, eight[3] = read.w;
        } else {
          const unsigned short* const bits = reinterpret_cast<const unsigned short*>(line);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const unsigned low = x + i * 2 < columns ? bits[x + i * 2] : 0;
            const unsigned high = x + i * 2 + 1 < columns ? bits[x + i * 2 + 1] : 0;
            eight[i] = high << 16 | low;
          }
        }
      }
    }
  }

  // Scales the scores, and adds.
  __device__ __forceinline__ void add(float (&scores)[keys / 2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int group = 0; group < keys / 32; ++group) {
        transpose(words[half][group], threadIdx.x % 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const T* const pair = reinterpret_cast<const T*>(&words[half][group][i]);
          float* const score = scores + (group * 4 + i) * 4 + half * 2;
          score[0] = score[0] * scale + static_cast<float>(pair[0]);
          score[1] = score[1] * scale + static_cast<float>(pair[1]);
        }
      }
    }
  }
};

// No tensor.
struct Nothing {
  static constexpr bool given = false;

  template <typename T>
  __device__ __forceinline__ void load(const T*, int, int, int, int) {}
};

template <typename T, int keys, bool biased>
struct AddedIf {
  using Type = Added<T, keys>;
};

template <typename T, int keys>
struct AddedIf<T, keys, false> {
  using Type = Nothing;
};

// Makes scores final: scales them, adds what is to be added, and applies the mask. Returns how many powers of two a unit of them
// stands for. Scores that nothing changes are not scaled.
template <int count, typename Tensor>
__device__ __forceinline__ float finished(const Mask& mask, Counts counts, float (&scores)[count], Tensor& added, float scale,
                                          int batch, int head, int row, int column, int rows, int keys) {
  if constexpr (Tensor::given) {
    added.add(scores, scale);
    if (counts != Counts::all) apply(mask, scores, 1.0f, batch, head, row, column, rows, keys);
    return log2_e;
  } else {
    if (counts == Counts::all) return scale * log2_e;
    apply(mask, scores, scale, batch, head, row, column, rows, keys);
    return log2_e;
  }
}

}  // namespace attention
