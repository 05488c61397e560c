"""What `rope` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    interleaved: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`q` [tokens, heads, dim] and `k` [tokens, kv_heads, dim] with each pair rotated: (a, b) becomes
    (a cos - b sin, b cos + a sin). `cos_sin` [positions, dim] has the cosines of a position,
    then its sines, as vLLM's cos_sin_cache.

    Pairs are neighbors if `interleaved`, else half a head apart. Half-precision tensors are computed in float32 and
    rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(q.dtype, torch.float32)
    table = cos_sin[: q.shape[0]] if positions is None else cos_sin[positions]
    c, s = table.to(compute).unsqueeze(1).chunk(2, dim=-1)

    def rotated(x: torch.Tensor) -> torch.Tensor:
        pairs = x.to(compute).unflatten(-1, (-1, 2) if interleaved else (2, -1))
        at = -1 if interleaved else -2
        a, b = pairs.unbind(at)
        return torch.stack((a * c - b * s, b * c + a * s), at).flatten(-2).to(x.dtype)

    return rotated(q), rotated(k)


def rope_backward(
    grad_q_out: torch.Tensor,
    grad_k_out: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    interleaved: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of the queries and keys of `rope`: each pair turned back."""
    compute = torch.promote_types(grad_q_out.dtype, torch.float32)
    table = cos_sin[: grad_q_out.shape[0]] if positions is None else cos_sin[positions]
    c, s = table.to(compute).unsqueeze(1).chunk(2, dim=-1)

    def turned_back(x: torch.Tensor) -> torch.Tensor:
        pairs = x.to(compute).unflatten(-1, (-1, 2) if interleaved else (2, -1))
        at = -1 if interleaved else -2
        a, b = pairs.unbind(at)
        return torch.stack((a * c + b * s, b * c - a * s), at).flatten(-2).to(x.dtype)

    return turned_back(grad_q_out), turned_back(grad_k_out)
