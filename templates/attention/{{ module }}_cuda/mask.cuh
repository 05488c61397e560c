// Which pairs of a row of q and a row of k count, and how their scores change.
// Owns: the mask. Never: products and sums.
#pragma once

namespace attention {

// Columns from `begin` on, without `end`.
struct Columns {
  int begin, end;
};

// How much of a block of scores counts: nothing, a part or scores that change, all scores as they are.
enum class Counts { nothing, part, all };

// Minus infinity: the score of a pair that does not count.
__device__ __forceinline__ float excluded() { return __int_as_float(0xff800000); }

// hole: mask
// Row i may see column j if j - i <= keys - rows (causal), and if it is one of the `window` last of those (window > 0).
struct Mask {
  bool causal;
  int window, rows, keys;

  // The last column that a row sees.
  __device__ __forceinline__ int last(int row) const { return causal ? row + keys - rows : keys - 1; }

  // The columns that the rows from `first` to `last_row` may see. Others are not read.
  __device__ __forceinline__ Columns columns(int batch, int head, int first, int last_row) const {
    return {window > 0 ? max(0, last(first) - window + 1) : 0, causal ? min(keys, last(last_row) + 1) : keys};
  }

  // What counts of the rows from `top` to `bottom` and the columns from `left` to `right`.
  __device__ __forceinline__ Counts block(int batch, int head, int top, int bottom, int left, int right) const {
    const bool all = (!causal || right <= last(top)) && (window <= 0 || left > last(bottom) - window);
    return all ? Counts::all : Counts::part;
  }

  // The score to use for a pair. What does not depend on the column is computed once for a row.
  __device__ __forceinline__ float operator()(float score, int batch, int head, int row, int column) const {
    const int end = last(row), before = window > 0 ? end - window : -1;
    return (column <= end) & (column > before) ? score : excluded();
  }
};
// end of hole: mask

}  // namespace attention
