"""What `cross_entropy` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def cross_entropy(
    input: torch.Tensor, target: torch.Tensor, ignore_index: int = -100
) -> tuple[torch.Tensor, torch.Tensor]:
    """The cross-entropy of each row of `input` [rows, vocabulary] with its target, and the logarithm of the sum of the
    row's exponentials, which the gradient needs.

    The loss is zero where the target is `ignore_index` or no column. Half-precision tensors are computed in float32,
    and so are the results; float64 stays float64.
    """
    x = input.to(torch.promote_types(input.dtype, torch.float32))
    largest = x.amax(dim=-1, keepdim=True)
    lse = ((x - largest).exp().sum(dim=-1, keepdim=True).log() + largest).squeeze(-1)
    counts = (target != ignore_index) & (target >= 0) & (target < input.shape[-1])
    column = torch.where(counts, target, torch.zeros_like(target))
    loss = lse - x.gather(-1, column.unsqueeze(-1)).squeeze(-1)
    return torch.where(counts, loss, torch.zeros_like(loss)), lse


def cross_entropy_backward(
    grad_loss: torch.Tensor,
    grad_lse: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    lse: torch.Tensor,
    ignore_index: int = -100,
) -> torch.Tensor:
    """The gradient of the logits, of the gradients of both results of `cross_entropy`; `lse` is the second one.

    A row is zero where both ask for nothing: where there is no gradient of `lse`, and the target is not counted.
    """
    compute = torch.promote_types(input.dtype, torch.float32)
    x = input.to(compute)
    counts = (target != ignore_index) & (target >= 0) & (target < input.shape[-1])
    of_loss = torch.where(counts, grad_loss.to(compute), 0.0).unsqueeze(-1)
    factor = of_loss + grad_lse.to(compute).unsqueeze(-1)
    grad = torch.where(factor == 0, 0.0, (x - lse.to(compute).unsqueeze(-1)).exp() * factor)
    is_target = torch.arange(input.shape[-1], device=input.device) == target.unsqueeze(-1)
    return torch.where(is_target & counts.unsqueeze(-1), grad - of_loss, grad).to(input.dtype)


def cross_entropy_saved(
    grad_loss: torch.Tensor,
    grad_lse: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    lse: None,
    ignore_index: int = -100,
) -> torch.Tensor:
    """What `cross_entropy` saves for its gradient."""
    return cross_entropy(input, target, ignore_index)[1]
