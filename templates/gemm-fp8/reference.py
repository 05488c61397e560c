"""What `gemm_fp8` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def gemm_fp8(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`a` [m, k] times the transpose of `b` [n, k], each sum times `scale_a` [m] of its row and `scale_b` [n] of its column,
    plus `bias` [n], if there is one: [m, n] in bfloat16. Float64 stays float64."""
    wide = scale_a.dtype
    out = (a.to(wide) @ b.to(wide).T) * scale_a.unsqueeze(-1) * scale_b
    if bias is not None:
        out = out + bias
    return out if wide == torch.float64 else out.to(torch.bfloat16)
