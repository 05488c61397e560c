// Whole boxes of k alone are multiplied.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

// Copies a box of a matrix to shared memory; outside of the matrix are zeros.
__device__ void load(unsigned target, const CUtensorMap& map, int column, int row, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// A thread has an element; boxes of 64 elements of k come by tensor maps.
template <typename T>
__global__ void __launch_bounds__(256)
gemm_boxes(T* out, const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right, int m, int n, int k) {
  constexpr unsigned bytes = 16 * 64 * sizeof(T);
  __shared__ alignas(128) T a[16 * 64];
  __shared__ alignas(128) T b[16 * 64];
  __shared__ alignas(8) unsigned long long arrived;
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  const bool first = threadIdx.x == 0 && threadIdx.y == 0;
  if (first) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&arrived)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  float sum = 0.0f;
  unsigned parity = 0;
  for (int at = 0; at + 64 <= k; at += 64) {
    if (first) {
      expect(shared(&arrived), 2 * bytes);
      load(shared(a), left, at, blockIdx.y * 16, shared(&arrived));
      load(shared(b), right, at, blockIdx.x * 16, shared(&arrived));
    }
    await(shared(&arrived), parity);
    for (int i = 0; i < 64; ++i) {
      sum += static_cast<float>(a[threadIdx.y * 64 + i]) * static_cast<float>(b[threadIdx.x * 64 + i]);
    }
    parity ^= 1;
    __syncthreads();
  }
  if (row < m && column < n) out[row * static_cast<long long>(n) + column] = static_cast<T>(sum);
}

template <typename T>
__global__ void gemm(T* out, const T* a, const T* b, int m, int n, int k) {
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int column = blockIdx.x * 16 + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum += static_cast<float>(a[row * static_cast<long long>(k) + i]) * static_cast<float>(b[column * static_cast<long long>(k) + i]);
  }
  out[row * static_cast<long long>(n) + column] = static_cast<T>(sum);
}
