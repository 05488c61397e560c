// Owns: the softmax of rows whose scores come block by block: the greatest score so far, the sum of the weights, and by how
// much earlier results shrink. Never: products.
#pragma once
#include "mask.cuh"

namespace attention {

// Powers of two are what the GPU has an instruction for.
constexpr float log2_e = 1.4426950408889634f, ln_2 = 0.6931471805599453f;

__device__ __forceinline__ float power_of_two(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

// So far the greatest exponent may grow before earlier results shrink: weights are at most 2 to the power of it.
constexpr float slack = 8.0f;

// The two rows that a thread has of a fragment; four threads beside each other share them.
struct Rows {
  // Greatest exponent of two so far, and this thread's part of the sum of weights.
  float greatest[2] = {excluded(), excluded()}, sum[2] = {0.0f, 0.0f};

  // Makes weights of `scores`, which are four a block of 8 columns: two of the first row, two of the second. They are in
  // units of `unit` powers of two. `shrink` is the factor of everything that was summed before.
  template <bool lazy, int count>
  __device__ __forceinline__ void weigh(float (&scores)[count], float unit, float (&shrink)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float high[2] = {scores[row * 2], scores[row * 2 + 1]};
#pragma unroll
      for (int i = 4; i < count; i += 4) {
        high[0] = fmaxf(high[0], scores[i + row * 2]);
        high[1] = fmaxf(high[1], scores[i + row * 2 + 1]);
      }
      float most = fmaxf(high[0], high[1]);
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
      most = fmaxf(greatest[row], most * unit);
      // While the greatest exponent grows by little, weights may exceed 1, and nothing has to shrink.
      if (lazy && most - greatest[row] <= slack) most = greatest[row];
      // Infinite exponents stay infinite: minus infinity while nothing counts, and infinity, which makes the sum infinite.
      const float base = fabsf(most) == -excluded() ? 0.0f : most;
      shrink[row] = power_of_two(greatest[row] - base);
      greatest[row] = most;
      float parts[2] = {sum[row] * shrink[row], 0.0f};
#pragma unroll
      for (int i = 0; i < count; i += 4) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& score = scores[i + row * 2 + j];
          score = power_of_two(score * unit - base);
          parts[j] += score;
        }
      }
      sum[row] = parts[0] + parts[1];
    }
  }

  // After the last block: the factors of the results, and the logarithms of the sums of exponentials. A row of which nothing
  // counts gives 0 and minus infinity.
  __device__ __forceinline__ void finish(float (&factor)[2], float (&logarithm)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float all = sum[row];
      all += __shfl_xor_sync(0xffffffff, all, 1);
      all += __shfl_xor_sync(0xffffffff, all, 2);
      const bool none = all == 0.0f;
      factor[row] = none ? 0.0f : 1.0f / all;
      logarithm[row] = none ? excluded() : greatest[row] * ln_2 + logf(all);
    }
  }
};

// Applies the mask to a block of scores. `row` and `column` are the first of this thread; rows and columns outside do not
// count, and the mask is not asked about them. whole: all columns are inside, so nothing is decided for each of them.
template <bool whole, int count>
__device__ __forceinline__ void apply_to(const Mask& mask, float (&scores)[count], float scale, int batch, int head, int row,
                                         int column, int rows, int keys) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int y = min(row + half * 8, rows - 1);
#pragma unroll
    for (int i = 0; i < count; i += 4) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int x = column + i * 2 + j;
        float& score = scores[i + half * 2 + j];
        score = whole || x < keys ? mask(score * scale, batch, head, y, x) : excluded();
      }
    }
  }
}

template <int count>
__device__ __forceinline__ void apply(const Mask& mask, float (&scores)[count], float scale, int batch, int head, int row,
                                      int column, int rows, int keys) {
  // The same for all threads of a warp.
  const int block = column - threadIdx.x % 4 * 2;
  if (block + count * 2 <= keys) {
    apply_to<true>(mask, scores, scale, batch, head, row, column, rows, keys);
  } else {
    apply_to<false>(mask, scores, scale, batch, head, row, column, rows, keys);
  }
}

// What counts of a block, if the mask and the ends of q and k are taken together.
__device__ __forceinline__ Counts counted(const Mask& mask, int batch, int head, int top, int height, int left, int width,
                                          int rows, int keys) {
  const Counts counts = mask.block(batch, head, top, min(top + height, rows) - 1, left, min(left + width, keys) - 1);
  return counts == Counts::all && left + width > keys ? Counts::part : counts;
}

}  // namespace attention
