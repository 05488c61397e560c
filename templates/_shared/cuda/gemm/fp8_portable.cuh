// Owns: out = epilogue(scaled a * transpose(b)) of 8-bit floats on any GPU of capability 8.0 or later, and for rows of any
// length. Elements become 16-bit ones on their way to shared memory; warps multiply those, so that sums are those of float32.
// Never: the tensor cores' products of 8-bit floats.
#pragma once
#include "fp8_elements.cuh"
#include "fragments.cuh"
#include "ring.cuh"
#include "store.cuh"

namespace gemm {

// Rows by 64 elements of a matrix: from memory into registers, and from there to shared memory. aligned: rows begin at
// multiples of 16 bytes. Zeros stand for what lies outside.
template <int rows, int threads, bool aligned>
struct Fp8Slice {
  static constexpr int units = 4, count = rows * units / threads;
  static_assert(rows * units % threads == 0, "every thread copies as much");
  uint4 bytes[count];

  __device__ __forceinline__ void read(const Fp8* matrix, int first, int height, int column, int k) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int at = i * threads + threadIdx.x, row = first + at / units, left = column + at % units * 16;
      bytes[i] = make_uint4(0, 0, 0, 0);
      if (row >= height || left >= k) continue;
      const Fp8* const source = matrix + static_cast<long long>(row) * k + left;
      if constexpr (aligned) {
        bytes[i] = *reinterpret_cast<const uint4*>(source);
      } else {
        unsigned words[4] = {};
#pragma unroll
        for (int j = 0; j < 16; ++j) {
          if (left + j < k) words[j / 4] |= static_cast<unsigned>(source[j].__x) << (j % 4 * 8);
        }
        bytes[i] = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  __device__ __forceinline__ void write(unsigned target) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int at = i * threads + threadIdx.x;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 words = widened(bytes[i], half != 0);
        const unsigned place = target + place_of<64>(at / units, at % units * 2 + half);
        asm volatile("st.shared.v4.b32 [%0], { %1, %2, %3, %4};" ::"r"(place), "r"(words.x), "r"(words.y), "r"(words.z),
                     "r"(words.w)
                     : "memory");
      }
    }
  }
};

// A block computes a tile of tile_m by tile_n; its warps, warps_m by warps_n, have parts of it.
template <typename T, int tile_m, int tile_n, int warps_m, int warps_n, bool aligned>
__device__ __forceinline__ void
fp8_portable(T* out, const Fp8* a, const Fp8* b, const Scales& scales, const Epilogue<T>& epilogue,
             int m, int n, int k, int group) {
  constexpr int threads = warps_m * warps_n * 32, tile_k = 64;
  constexpr int own_m = tile_m / warps_m / 16, own_n = tile_n / warps_n / 16;
  constexpr int bytes_a = tile_m * tile_k * 2, bytes = bytes_a + tile_n * tile_k * 2;
  extern __shared__ unsigned char memory[];
  const unsigned tiles = shared_address(memory);

  const Walk walk{(m + tile_m - 1) / tile_m, (n + tile_n - 1) / tile_n, group};
  int first_m, first_n;
  walk.at(blockIdx.x, first_m, first_n);
  first_m *= tile_m;
  first_n *= tile_n;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = warp / warps_n * own_m * 16, warp_n = warp % warps_n * own_n * 16;
  const int steps = (k + tile_k - 1) / tile_k;
  Fp8Slice<tile_m, threads, aligned> left_slice;
  Fp8Slice<tile_n, threads, aligned> right_slice;
  const auto read = [&](int step) {
    left_slice.read(a, first_m, m, step * tile_k, k);
    right_slice.read(b, first_n, n, step * tile_k, k);
  };
  const auto write = [&](int step) {
    left_slice.write(tiles + step % 2 * bytes);
    right_slice.write(tiles + step % 2 * bytes + bytes_a);
  };
  read(0);
  write(0);
  __syncthreads();

  float sums[own_m][2 * own_n][4] = {};
  for (int step = 0; step < steps; ++step) {
    // The next step is on its way while one is multiplied.
    if (step + 1 < steps) read(step + 1);
    const unsigned stage = tiles + step % 2 * bytes;
#pragma unroll
    for (int unit = 0; unit < tile_k / 8; unit += 2) {
      unsigned left[own_m][4], right[own_n][4];
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
        load_fragment(left[i], stage + place_of<tile_k>(warp_m + i * 16 + lane % 16, unit + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < own_n; ++j) {
        const int row = warp_n + j * 16 + lane / 16 * 8 + lane % 8;
        load_fragment(right[j], stage + bytes_a + place_of<tile_k>(row, unit + lane / 8 % 2));
      }
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * own_n; ++j) {
          multiply_fragments(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], __half());
        }
      }
    }
    if (step + 1 < steps) write(step + 1);
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < own_m; ++i) {
    const int top = first_m + warp_m + i * 16;
    const WarpScales<own_n * 16> own(scales, top, first_n + warp_n, m, n);
    own.finish(reinterpret_cast<float(&)[own_n * 8]>(sums[i]), epilogue, top, first_n + warp_n, m, n);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < own_n; ++j) {
        store_pairs(out, sums[i][2 * j] + half * 2, sums[i][2 * j + 1] + half * 2, top + half * 8 + lane / 4,
                    first_n + warp_n + j * 16, m, n, epilogue);
      }
    }
  }
}

}  // namespace gemm
