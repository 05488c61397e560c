"""RMS normalization, then 8-bit integers with a scale for each row."""

import torch


def rms_norm_int8(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor]:
    """`x` [rows, hidden] normalized and multiplied by `weight` [hidden], as int8 [rows, hidden] with scales [rows]."""
    scaled = x.float() * weight.float()
    largest = scaled.abs().amax(dim=-1, keepdim=True)
    # The product first: in float64 it is exact.
    q = torch.where((largest > 0) & (largest < torch.inf), scaled * 127.0 / largest, 0.0)
    root = torch.rsqrt(x.float().square().mean(dim=-1) + eps)
    return q.round().to(torch.int8), largest.squeeze(-1) * root / 127.0


def example_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """Arguments of a call."""
    return torch.randn(6, 48), torch.randn(48)
