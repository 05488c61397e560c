// Transposes matrices.
// Owns: the kernels. Never: chooses among them; [launch] of op.toml does.
//
// STREAM: whether inputs and results are marked as used once, so that they leave the caches first.

#include "vector.cuh"

namespace transpose {

using namespace vector;

// One access as words of 32 bits.
template <int kBytes>
struct Words {
    using Bits = typename Word<kBytes>::Type;
    union {
        Bits bits;
        uint32_t words[kBytes / 4];
    };
    __device__ Words() {}
};

// Column `column` of a square that lies in `lines`, one row each.
template <int kSize, int kLength>
__device__ __forceinline__ Words<kSize * kLength> column_of(const Words<kSize * kLength> (&lines)[kLength],
                                                            int column) {
    Words<kSize * kLength> found;
    if constexpr (kSize == 4) {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            found.words[i] = lines[i].words[column];
        }
    } else {
        // The lower or the upper halves of two words.
        const uint32_t halves = column % 2 == 0 ? 0x5410 : 0x7632;
#pragma unroll
        for (int i = 0; i < kLength / 2; ++i) {
            found.words[i] = __byte_perm(lines[2 * i].words[column / 2], lines[2 * i + 1].words[column / 2], halves);
        }
    }
    return found;
}

// The tile of a block: its matrix, and where it begins in it, in tiles.
struct Tile {
    int64_t matrix;
    int row;
    int column;

    __device__ Tile(int down, int across) {
        const unsigned line = blockIdx.x / static_cast<unsigned>(across);
        column = static_cast<int>(blockIdx.x % static_cast<unsigned>(across));
        row = static_cast<int>(line % static_cast<unsigned>(down));
        matrix = line / static_cast<unsigned>(down);
    }
};

// Each thread turns a square of kLength rows and columns in its registers: an access for every row that it reads, all
// on their way at once, and one for every row that it writes. kAcross threads of a warp lie along a row of the input,
// the others along a row of the result, so that both have neighbors in memory.
template <typename T, int kLength, int kAcross, int kWarps>
__global__ void __launch_bounds__(kWarp * kWarps)
    squares(T* out, const T* input, int rows, int cols, int down, int across) {
    using Line = Words<sizeof(T) * kLength>;
    using Bits = typename Line::Bits;
    const Tile tile(down, across);
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int row = (tile.row * (kWarp / kAcross) + lane / kAcross) * kLength;
    const int column = ((tile.column * kWarps + warp) * kAcross + lane % kAcross) * kLength;
    if (row >= rows || column >= cols) {
        return;
    }
    const int64_t first = tile.matrix * rows * cols;
    const T* const from = input + first + static_cast<int64_t>(row) * cols + column;
    Line lines[kLength];
#pragma unroll
    for (int i = 0; i < kLength; ++i) {
        lines[i].bits = load(reinterpret_cast<const Bits*>(from + static_cast<int64_t>(i) * cols));
    }
    T* const to = out + first + static_cast<int64_t>(column) * rows + row;
#pragma unroll
    for (int i = 0; i < kLength; ++i) {
        const Line turned = column_of<sizeof(T), kLength>(lines, i);
        store(reinterpret_cast<Bits*>(to + static_cast<int64_t>(i) * rows), turned.bits);
    }
}

// Any lengths: single elements, through shared memory. One more in a row, so that those of a column lie in other banks.
template <typename T>
__global__ void __launch_bounds__(256) tiles(T* out, const T* input, int rows, int cols, int down, int across) {
    constexpr int kSide = 64;
    constexpr int kLines = 256 / kWarp;
    __shared__ typename Word<sizeof(T)>::Type held[kSide][kSide + 1];
    using Bits = typename Word<sizeof(T)>::Type;
    const Tile tile(down, across);
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int top = tile.row * kSide;
    const int left = tile.column * kSide;
    const int64_t first = tile.matrix * rows * cols;
    const Bits* const from = reinterpret_cast<const Bits*>(input) + first;
    Bits* const to = reinterpret_cast<Bits*>(out) + first;
#pragma unroll
    for (int i = 0; i < kSide; i += kLines) {
#pragma unroll
        for (int j = 0; j < kSide; j += kWarp) {
            const int row = top + warp + i;
            const int column = left + lane + j;
            if (row < rows && column < cols) {
                held[warp + i][lane + j] = load(from + static_cast<int64_t>(row) * cols + column);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSide; i += kLines) {
#pragma unroll
        for (int j = 0; j < kSide; j += kWarp) {
            const int column = left + warp + i;
            const int row = top + lane + j;
            if (row < rows && column < cols) {
                store(to + static_cast<int64_t>(column) * rows + row, held[lane + j][warp + i]);
            }
        }
    }
}

}  // namespace transpose
