"""Softmax over keys of scores with a bias, for a mask of keys."""

import torch


def masked_softmax_bias(scores: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`scores` [batch, queries, keys] plus `bias` [queries, keys], softmax over the keys that `mask` [batch, keys] keeps."""
    kept = (scores + bias).masked_fill(mask[:, None, :] == 0, -30000.0)
    return torch.softmax(kept, dim=-1)


def example_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Arguments of a call."""
    return torch.randn(3, 5, 48), torch.randn(5, 48), torch.rand(3, 48) < 0.8
