// Tiles come and go by tensor maps, the last one also to the input.
#include <cuda.h>
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

// An address in shared memory as instructions take it.
__device__ unsigned shared(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Says that so many bytes will arrive.
__device__ void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits for the end of a phase.
__device__ void await(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// Copies a box of a matrix to shared memory.
__device__ void load(unsigned target, const CUtensorMap& map, int column, int row, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Copies a stretch of a vector to shared memory.
__device__ void load(unsigned target, const CUtensorMap& map, int first, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(
          target),
      "l"(&map), "r"(first), "r"(barrier)
      : "memory");
}

// Copies a box from shared memory; what lies outside of the matrix is left out. Returns when the source may be written.
__device__ void store(const CUtensorMap& map, int column, int row, unsigned source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(column), "r"(row), "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// A block of 128 threads has eight rows, 16 threads each; outside of the matrix the loads find zeros.
template <typename T, int columns>
__global__ void __launch_bounds__(128)
row_norm_tiles(const __grid_constant__ CUtensorMap results, const __grid_constant__ CUtensorMap tiles, const __grid_constant__ CUtensorMap weights,
               int hidden, float eps) {
  constexpr int rows = 8;
  __shared__ alignas(128) T tile[rows * columns];
  __shared__ alignas(128) T stretch[columns];
  __shared__ alignas(128) T result[rows * columns];
  __shared__ alignas(8) unsigned long long arrived;
  const int first = blockIdx.x * rows, row = threadIdx.x / 16, lane = threadIdx.x % 16;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&arrived)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  unsigned parity = 0;
  float squares = 0.0f;
  for (int column = 0; column < hidden; column += columns) {
    if (threadIdx.x == 0) {
      expect(shared(&arrived), rows * columns * sizeof(T));
      load(shared(tile), tiles, column, first, shared(&arrived));
    }
    await(shared(&arrived), parity);
    parity ^= 1;
    for (int i = lane; i < columns; i += 16) {
      const float value = static_cast<float>(tile[row * columns + i]);
      squares += value * value;
    }
    __syncthreads();
  }
  for (int other = 8; other > 0; other /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, other);
  const float scale = rsqrtf(squares / hidden + eps);
  for (int column = 0; column < hidden; column += columns) {
    if (threadIdx.x == 0) {
      expect(shared(&arrived), (rows + 1) * columns * sizeof(T));
      load(shared(tile), tiles, column, first, shared(&arrived));
      load(shared(stretch), weights, column, shared(&arrived));
    }
    await(shared(&arrived), parity);
    parity ^= 1;
    for (int i = lane; i < columns; i += 16) {
      const float value = static_cast<float>(tile[row * columns + i]);
      result[row * columns + i] = static_cast<T>(value * scale * static_cast<float>(stretch[i]));
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) store(results, column, first, shared(result));
    __syncthreads();
  }
  // The last tile, once more, to where it came from.
  if (threadIdx.x == 0) store(tiles, (hidden - 1) / columns * columns, first, shared(result));
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <typename T, int threads>
__global__ void row_norm(T* out, const T* input, const T* weight, int hidden, float eps) {
  const T* row = input + static_cast<long long>(blockIdx.x) * hidden;
  T* target = out + static_cast<long long>(blockIdx.x) * hidden;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += threads) {
    const float value = static_cast<float>(row[i]);
    squares += value * value;
  }
  const float scale = rsqrtf(block_sum<threads>(squares) / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += threads) {
    target[i] = static_cast<T>(static_cast<float>(row[i]) * scale * static_cast<float>(weight[i]));
  }
}
