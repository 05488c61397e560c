"""Every row divided by its root mean square and multiplied by a weight."""

import torch

__all__ = ["scaled_norm"]


@torch.compiler.assume_constant_result
def _scale(length: int) -> float:
    return 1.0 / length


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight`, into `out` where it is given."""
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().mul_(_scale(x.shape[-1]))
    result = x / square.add_(eps).sqrt_() * weight
    if out is None:
        return result
    out.copy_(result)
    return out
