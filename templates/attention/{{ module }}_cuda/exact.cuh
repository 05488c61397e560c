// Owns: rows whose results are not finite although their sums are: a row of v holds an infinity or NaN. Products with a weight of
// zero make NaN of it also where the pair does not count, so these rows are computed again without them.
// Never: rows whose results are finite.
#pragma once
#include "softmax.cuh"

namespace attention {

// Lengths of a call: q is [batches, heads, rows, width], k and v are [batches, kv_heads, keys, width]. `group` heads are walked
// together.
struct Shape {
  int batches, heads, kv_heads, rows, keys, width, group;
};

// A call's tensors, as they are in memory.
template <typename T>
struct Tensors {
  const T *q, *k, *v, *bias;
  T* out;
  float* lse;
};

__device__ __forceinline__ bool is_finite(float value) { return fabsf(value) < -excluded(); }

// Computes and stores one row, by all threads of a warp. `logarithm` is the row's own, and finite.
template <typename T, int width, bool biased>
__device__ __forceinline__ void store_again(const Tensors<T>& tensors, const Mask& mask, const Shape& shape, float scale, int batch,
                                            int head, int row, float logarithm) {
  const int lane = threadIdx.x % 32;
  const long long matrix_q = static_cast<long long>(batch) * shape.heads + head;
  const long long matrix_k = static_cast<long long>(batch) * shape.kv_heads + head / (shape.heads / shape.kv_heads);
  const long long place = (matrix_q * shape.rows + row) * shape.width;
  const T* const q = tensors.q + place;
  float sums[width / 32] = {};
  const Columns columns = mask.columns(batch, head, row, row);
  for (int column = max(columns.begin, 0); column < min(columns.end, shape.keys); ++column) {
    const T* const k = tensors.k + (matrix_k * shape.keys + column) * shape.width;
    float score = 0.0f;
    for (int i = lane; i < shape.width; i += 32) score += static_cast<float>(q[i]) * static_cast<float>(k[i]);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) score += __shfl_xor_sync(0xffffffff, score, distance);
    score *= scale;
    if constexpr (biased) score += static_cast<float>(tensors.bias[static_cast<long long>(row) * shape.keys + column]);
    score = mask(score, batch, head, row, column);
    if (score == excluded()) continue;
    const float weight = power_of_two((score - logarithm) * log2_e);
    const T* const v = tensors.v + (matrix_k * shape.keys + column) * shape.width;
#pragma unroll
    for (int i = 0; i < width / 32; ++i) {
      const int at = i * 32 + lane;
      const float value = at < shape.width ? static_cast<float>(v[at]) : 0.0f;
      sums[i] += is_finite(value) ? weight * value : value;
    }
  }
#pragma unroll
  for (int i = 0; i < width / 32; ++i) {
    const int at = i * 32 + lane;
    if (at < shape.width) tensors.out[place + at] = static_cast<T>(sums[i]);
  }
}

}  // namespace attention
