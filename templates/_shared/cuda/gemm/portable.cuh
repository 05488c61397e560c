// out = epilogue(a * b) on any GPU of capability 8.0 or later, and for rows of any length: warps multiply
// fragments of 16 by 16 with mma.sync, from a ring of stages in shared memory.
// Owns: copies to shared memory, the main loop, stores from registers. Never: what becomes of a sum; `Epilogue` does.
#pragma once
#include "epilogue.cuh"
#include "fragments.cuh"

namespace gemm {

// The 8 elements from `source` on, which may begin anywhere, or `count` of them and zeros for the others. Two vectors that begin
// at multiples of 16 bytes have them; the second one is read only if it has one.
__device__ __forceinline__ uint4 read_anywhere(const unsigned short* source, int count) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(source);
  const unsigned offset = address & 15;
  const uint4* const vectors = reinterpret_cast<const uint4*>(address - offset);
  const uint4 low = __ldg(vectors);
  const uint4 high = offset + count * 2 > 16 ? __ldg(vectors + 1) : make_uint4(0, 0, 0, 0);
  // Moved by two words, by one, and by half a word.
  const bool two = (offset & 8) != 0, one = (offset & 4) != 0;
  const unsigned bits = (offset & 2) * 8;
  const unsigned from[6] = {two ? low.z : low.x,  two ? low.w : low.y,  two ? high.x : low.z,
                            two ? high.y : low.w, two ? high.z : high.x, two ? high.w : high.y};
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = __funnelshift_r(one ? from[i + 1] : from[i], one ? from[i + 2] : from[i + 1], bits);
    const int left = count - i * 2;
    words[i] &= left >= 2 ? 0xffffffffu : left == 1 ? 0xffffu : 0u;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Starts the copies of rows by `width` elements of a matrix, from row `first` and `column` on; zeros stand for what lies
// outside of its `height` by `length`. aligned: rows begin at multiples of 16 bytes. Otherwise they go through registers, and are
// there when this returns.
template <typename T, int rows, int width, int threads, bool aligned>
__device__ __forceinline__ void fetch(unsigned target, const T* matrix, int first, int height, int column, int length) {
  constexpr int units = width / 8;
  static_assert(rows * units % threads == 0, "every thread copies as much");
  // Registers are scarce beside the sums.
  constexpr int unrolled = aligned ? rows * units / threads : 1;
#pragma unroll unrolled
  for (int i = 0; i < rows * units / threads; ++i) {
    const int at = i * threads + threadIdx.x;
    const int row = at / units;
    const int unit = at % units;
    const int left = column + unit * 8;
    const bool inside = first + row < height && left < length;
    const T* const source = matrix + (inside ? static_cast<long long>(first + row) * length + left : 0);
    const unsigned place = target + place_of<width>(row, unit);
    if constexpr (aligned) {
      copy(place, source, inside);
    } else {
      const uint4 eight = read_anywhere(reinterpret_cast<const unsigned short*>(source), inside ? min(8, length - left) : 0);
      asm volatile("st.shared.v4.b32 [%0], { %1, %2, %3, %4};" ::"r"(place), "r"(eight.x), "r"(eight.y), "r"(eight.z),
                   "r"(eight.w)
                   : "memory");
    }
  }
}

// The same for an operand's tile: `rows` from `first` of `height` on, tile_k elements of k.
template <typename T, Layout layout, int rows, int tile_k, int threads, bool aligned>
__device__ __forceinline__ void fetch_operand(unsigned target, const T* matrix, int first, int height, int column, int k) {
  if constexpr (layout == Layout::along) {
    fetch<T, rows, tile_k, threads, aligned>(target, matrix, first, height, column, k);
  } else {
    fetch<T, tile_k, rows, threads, aligned>(target, matrix, column, k, first, height);
  }
}

// 16 rows of an operand's tile, from `row` on, by 16 elements of k, from `unit` * 8 on: four matrices of 8 by 8. k_first: the
// second of them is the next one along k, as the right operand wants it; otherwise the next one along the rows.
template <Layout layout, int rows, int tile_k, bool k_first>
__device__ __forceinline__ void load_operand(unsigned (&fragment)[4], unsigned tile, int row, int unit) {
  const int lane = threadIdx.x % 32;
  if constexpr (layout == Layout::along) {
    const int y = k_first ? row + lane / 16 * 8 + lane % 8 : row + lane % 16;
    load_fragment(fragment, tile + place_of<tile_k>(y, unit + (k_first ? lane / 8 % 2 : lane / 16)));
  } else {
    const int y = unit * 8 + (k_first ? lane % 16 : lane / 16 * 8 + lane % 8);
    load_transposed(fragment, tile + place_of<rows>(y, row / 8 + (k_first ? lane / 16 : lane / 8 % 2)));
  }
}

// A block computes a tile of tile_m by tile_n; its warps, warps_m by warps_n, have parts of it. `group` rows of tiles are
// walked together, column by column, so that blocks beside each other share what they read through the L2 cache.
template <typename T, int tile_m, int tile_n, int tile_k, int warps_m, int warps_n, int stages, bool aligned_a, bool aligned_b,
          Layout layout_a = Layout::along, Layout layout_b = Layout::along, class Finish>
__device__ __forceinline__ void
portable_tile(T* out, const T* a, const T* b, const Finish& epilogue, int m, int n, int k, int group) {
  constexpr int threads = warps_m * warps_n * 32;
  constexpr int own_m = tile_m / warps_m / 16;
  constexpr int own_n = tile_n / warps_n / 16;
  constexpr int bytes_a = tile_m * tile_k * 2;
  constexpr int bytes_b = tile_n * tile_k * 2;
  extern __shared__ unsigned char memory[];
  const unsigned tiles = shared_address(memory);

  const int blocks_m = (m + tile_m - 1) / tile_m;
  const int blocks_n = (n + tile_n - 1) / tile_n;
  const int walked = blockIdx.x / (group * blocks_n) * group;
  const int height = min(group, blocks_m - walked);
  const int within = blockIdx.x % (group * blocks_n);
  const int first_m = (walked + within % height) * tile_m;
  const int first_n = within / height * tile_n;

  const int steps = (k + tile_k - 1) / tile_k;
  const auto start = [&](int step) {
    if (step < steps) {
      const unsigned stage = tiles + step % stages * (bytes_a + bytes_b);
      fetch_operand<T, layout_a, tile_m, tile_k, threads, aligned_a>(stage, a, first_m, m, step * tile_k, k);
      fetch_operand<T, layout_b, tile_n, tile_k, threads, aligned_b>(stage + bytes_a, b, first_n, n, step * tile_k, k);
    }
    // A group for each step, though it may be empty: groups are counted.
    copies_commit();
  };
  for (int step = 0; step < stages - 1; ++step) {
    start(step);
  }

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int warp_m = warp / warps_n * own_m * 16;
  const int warp_n = warp % warps_n * own_n * 16;
  float sums[own_m][2 * own_n][4] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<stages - 2>();
    // The step has arrived for all, and nobody reads the stage any more that is written next.
    __syncthreads();
    start(step + stages - 1);
    const unsigned stage = tiles + step % stages * (bytes_a + bytes_b);
#pragma unroll
    for (int unit = 0; unit < tile_k / 8; unit += 2) {
      unsigned left[own_m][4];
      unsigned right[own_n][4];
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
        load_operand<layout_a, tile_m, tile_k, false>(left[i], stage, warp_m + i * 16, unit);
      }
#pragma unroll
      for (int j = 0; j < own_n; ++j) {
        load_operand<layout_b, tile_n, tile_k, true>(right[j], stage + bytes_a, warp_n + j * 16, unit);
      }
#pragma unroll
      for (int i = 0; i < own_m; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * own_n; ++j) {
          multiply_fragments(
            sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], T());
        }
      }
    }
  }
  wait_for_copies<0>();

#pragma unroll
  for (int i = 0; i < own_m; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_m + warp_m + i * 16 + half * 8 + lane / 4;
      if (row >= m) {
        continue;
      }
      T* const target = out + static_cast<long long>(row) * n;
#pragma unroll
      for (int j = 0; j < 2 * own_n; ++j) {
        const int column = first_n + warp_n + j * 8 + lane % 4 * 2;
        alignas(4) T pair[2] = {};
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          if (column + part < n) {
            pair[part] = static_cast<T>(epilogue(sums[i][j][half * 2 + part], row, column + part));
          }
        }
        if (n % 2 == 0 && column < n) {
          *reinterpret_cast<unsigned*>(target + column) = *reinterpret_cast<const unsigned*>(pair);
        } else if (column < n) {
          target[column] = pair[0];
          if (column + 1 < n) {
            target[column + 1] = pair[1];
          }
        }
      }
    }
  }
}

}  // namespace gemm
