"""What `dequantize_rows` computes, in plain PyTorch. On float64 it is the oracle, on real dtypes the baseline."""

import torch

# As op.toml has it for `out`.
OUT = torch.bfloat16


def dequantize_rows(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Each row of `q` [rows, hidden], 8-bit floats or integers, times its scale [rows], in `OUT`.

    The product is computed in float32 and rounded once; with scales in float64 all of it is, and stays so.
    """
    product = q.to(scale.dtype) * scale.unsqueeze(-1)
    return product if scale.dtype == torch.float64 else product.to(OUT)
