// A cluster has one row: each block sums a part of it, and reads the sums of the others where they lie.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The sum of one number a thread; every thread gets it.
template <int threads>
__device__ float block_sum(float own) {
  __shared__ float partial[threads];
  partial[threadIdx.x] = own;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  return partial[0];
}

template <typename T, int threads>
__global__ void row_norm_cluster(T* out, const T* input, const T* weight, int hidden, float eps) {
  __shared__ float own;
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int blocks = cluster.num_blocks(), rank = cluster.block_rank();
  const int share = (hidden + blocks - 1) / blocks;
  const int begin = rank * share, end = min(hidden, begin + share);
  const T* row = input + static_cast<long long>(blockIdx.x / blocks) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x / blocks) * hidden;
  float squares = 0.0f;
  for (int i = begin + threadIdx.x; i < end; i += threads) {
    const float value = static_cast<float>(row[i]);
    squares += value * value;
  }
  const float sum = block_sum<threads>(squares);
  if (threadIdx.x == 0) own = sum;
  cluster.sync();
  float all = 0.0f;
  for (int other = 0; other < blocks; ++other) all += *cluster.map_shared_rank(&own, other);
  // Nobody leaves while its memory is read.
  cluster.sync();
  const float scale = rsqrtf(all / hidden + eps);
  for (int i = begin + threadIdx.x; i < end; i += threads) {
    target[i] = static_cast<T>(static_cast<float>(row[i]) * scale * static_cast<float>(weight[i]));
  }
}
