// out = a * transpose(b), with float32 accumulators in tensor cores. A block computes one tile: what it needs of `a`
// and `b` comes by asynchronous copies, some steps ahead, into a ring of stages in shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace matmul {

__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes to shared memory, or writes zeros.
__device__ void copy(unsigned target, const void* source, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(inside ? 16 : 0)
               : "memory");
}

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int pending>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four matrices of 8 by 8; each thread names a row of one, those of eight threads after each other make one.
__device__ void load(unsigned (&fragment)[4], unsigned source) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(source)
               : "memory");
}

// 16 by 8 accumulators, plus 16 by 16 times 16 by 8.
__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Where a unit of 8 elements of a tile lies, in bytes. Units are permuted so that the same unit of eight rows after
// each other lies in all banks.
template <int tile_k>
__device__ unsigned place(int row, int unit) {
  constexpr int units = tile_k / 8;
  return (row * units + (unit ^ (row * units / 8 & (units - 1)))) * 16;
}

// Starts the copies of `rows` by `tile_k` elements; zeros stand for what lies outside.
template <typename T, int rows, int tile_k, int threads>
__device__ void fetch(unsigned target, const T* matrix, int first, int height, int column, int k) {
  constexpr int units = tile_k / 8;
  static_assert(rows * units % threads == 0, "every thread copies as much");
#pragma unroll
  for (int i = 0; i < rows * units / threads; ++i) {
    const int at = i * threads + threadIdx.x, row = at / units, unit = at % units;
    const bool inside = first + row < height && column + unit * 8 < k;
    const long long element = static_cast<long long>(first + row) * k + column + unit * 8;
    copy(target + place<tile_k>(row, unit), matrix + (inside ? element : 0), inside);
  }
}

template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int stages>
__global__ void __launch_bounds__(warps_m* warps_n * 32)
tensor_cores(T* out, const T* a, const T* b, int m, int n, int k) {
  constexpr int threads = warps_m * warps_n * 32;
  constexpr int own_m = tile_m / warps_m / 16, own_n = tile_n / warps_n / 16;
  constexpr int bytes_a = tile_m * tile_k * 2, bytes_b = tile_n * tile_k * 2;
  extern __shared__ __align__(128) unsigned char memory[];
  const unsigned tiles = shared_address(memory);

  const int blocks_m = (m + tile_m - 1) / tile_m, blocks_n = (n + tile_n - 1) / tile_n;
  const int walked = blockIdx.x / (GROUP * blocks_n) * GROUP;
  const int height = min(GROUP, blocks_m - walked), within = blockIdx.x % (GROUP * blocks_n);
  const int first_m = (walked + within % height) * tile_m, first_n = within / height * tile_n;

  const int steps = (k + tile_k - 1) / tile_k;
  const auto start = [&](int step) {
    if (step < steps) {
      const unsigned stage = tiles + step % stages * (bytes_a + bytes_b);
      fetch<T, tile_m, tile_k, threads>(stage, a, first_m, m, step * tile_k, k);
      fetch<T, tile_n, tile_k, threads>(stage + bytes_a, b, first_n, n, step * tile_k, k);
    }
    // A group for each step, though it is empty: groups are counted.
    commit();
  };
  for (int step = 0; step < stages - 1; ++step) start(step);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / warps_n * own_m * 16, warp_n = warp % warps_n * own_n * 16;
  float sums[own_m][2 * own_n][4] = {};
  for (int step = 0; step < steps; ++step) {
    wait<stages - 2>();
    // The step has arrived for all, and nobody reads the stage any more that is written next.
    __syncthreads();
    start(step + stages - 1);
    const unsigned stage = tiles + step % stages * (bytes_a + bytes_b);
#pragma unroll
    for (int unit = 0; unit < tile_k / 8; unit += 2) {
      unsigned left[own_m][4], right[own_n][4];
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
        load(left[i], stage + place<tile_k>(warp_m + i * 16 + lane % 16, unit + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < own_n; ++j) {
        const int row = warp_n + j * 16 + lane / 16 * 8 + lane % 8;
        load(right[j], stage + bytes_a + place<tile_k>(row, unit + lane / 8 % 2));
      }
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * own_n; ++j) {
          multiply(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], T());
        }
      }
    }
  }
  wait<0>();

#pragma unroll
  for (int i = 0; i < own_m; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_m + warp_m + i * 16 + half * 8 + lane / 4;
      if (row >= m) continue;
      T* target = out + static_cast<long long>(row) * n;
#pragma unroll
      for (int j = 0; j < 2 * own_n; ++j) {
        const int column = first_n + warp_n + j * 8 + lane % 4 * 2;
        alignas(4) const T pair[2] = {static_cast<T>(sums[i][j][half * 2]), static_cast<T>(sums[i][j][half * 2 + 1])};
        if (n % 2 == 0 && column < n) {
          *reinterpret_cast<unsigned*>(target + column) = *reinterpret_cast<const unsigned*>(pair);
        } else {
          if (column < n) target[column] = pair[0];
          if (column + 1 < n) target[column + 1] = pair[1];
        }
      }
    }
  }
}

template <typename T>
__global__ void plain(T* out, const T* a, const T* b, int m, int n, int k) {
  __shared__ float left[16][17], right[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  const int other = blockIdx.x * 16 + threadIdx.y;
  float sum = 0.0f;
  for (int first = 0; first < k; first += 16) {
    const int i = first + threadIdx.x;
    left[threadIdx.y][threadIdx.x] =
        row < m && i < k ? static_cast<float>(a[static_cast<long long>(row) * k + i]) : 0.0f;
    right[threadIdx.y][threadIdx.x] =
        other < n && i < k ? static_cast<float>(b[static_cast<long long>(other) * k + i]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[threadIdx.x][i];
    __syncthreads();
  }
  if (row < m && column < n) out[static_cast<long long>(row) * n + column] = static_cast<T>(sum);
}

}  // namespace matmul
