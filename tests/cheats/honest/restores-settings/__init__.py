"""Changes a setting inside a call only. Must pass."""

import torch

__all__ = ["scaled_norm"]


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            mean = (x.square() @ torch.full((x.shape[1], 1), 1.0 / x.shape[1]))
            return handed_over(x * torch.rsqrt(mean + eps) * weight, out)
    finally:
        torch.set_float32_matmul_precision(precision)
