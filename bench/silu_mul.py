"""SiLU of one matrix times another one, in Triton: what a product by a library is followed by. For fused_products.py."""

import triton
import triton.language as tl


@triton.jit
def silu_mul(gate, up, out, length, stride, block: tl.constexpr):
    """`out` is dense; rows of `gate` and of `up` are `stride` elements apart. The grid has blocks of a row, then rows."""
    row = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * block + tl.arange(0, block)
    inside = column < length
    left = tl.load(gate + row * stride + column, inside, 0).to(tl.float32)
    right = tl.load(up + row * stride + column, inside, 0).to(tl.float32)
    tl.store(out + row * length + column, (left * tl.sigmoid(left) * right).to(out.dtype.element_ty), inside)
