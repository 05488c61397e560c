"""What `group_norm` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def group_norm(
    input: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    groups: int = 32,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Normalise each group of neighboring channels of `input` [batch, channels, spatial] to mean 0 and variance 1,
    scale each channel by its `weight` and add its `bias`.

    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    x = input.to(compute).unflatten(1, (groups, -1))
    x = x - x.mean(dim=(2, 3), keepdim=True)
    scale = torch.rsqrt(x.square().mean(dim=(2, 3), keepdim=True) + eps)
    x = (x * scale).flatten(1, 2)
    if weight is not None:
        x = x * weight.to(compute).unsqueeze(-1)
    if bias is not None:
        x = x + bias.to(compute).unsqueeze(-1)
    return x.to(input.dtype)


def group_norm_fused(
    input: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    groups: int = 32,
    eps: float = 1e-5,
) -> torch.Tensor:
    """The best single PyTorch operator for the same work: the second baseline."""
    return torch.nn.functional.group_norm(input, groups, weight, bias, eps)
