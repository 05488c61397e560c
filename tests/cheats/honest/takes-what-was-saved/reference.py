"""What `wide_norm` computes here: the gradient of log-softmax, in plain PyTorch."""

import torch


def wide_norm(grad: torch.Tensor, x: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """The gradient of log-softmax at `x`, the logarithm of the sum of whose exponentials is `lse`."""
    compute = torch.promote_types(x.dtype, torch.float32)
    g = grad.to(compute)
    softmax = (x.to(compute) - lse.to(compute).unsqueeze(-1)).exp()
    return (g - softmax * g.sum(dim=-1, keepdim=True)).to(x.dtype)


def saved(grad: torch.Tensor, x: torch.Tensor, lse: None) -> torch.Tensor:
    """What the forward pass saved."""
    return torch.logsumexp(x, dim=-1)
