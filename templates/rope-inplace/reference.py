"""What `rope_inplace` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def rope_inplace(
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    interleaved: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is left in `q` [tokens, heads, dim] and `k` [tokens, kv_heads, dim]: the first `rotary` elements of each
    head with each pair rotated, (a, b) becomes (a cos - b sin, b cos + a sin), the others as they were. `cos_sin`
    [positions, rotary] has the cosines of a position, then its sines, as vLLM's cos_sin_cache.

    Pairs are neighbors if `interleaved`, else `rotary` / 2 apart. Half-precision tensors are computed in float32 and
    rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(q.dtype, torch.float32)
    # Never more than a head has.
    half = min(cos_sin.shape[-1], q.shape[-1]) // 2
    table = cos_sin[: q.shape[0]] if positions is None else cos_sin[positions]
    c, s = (part[..., :half] for part in table.to(compute).unsqueeze(1).chunk(2, dim=-1))

    def rotated(x: torch.Tensor) -> torch.Tensor:
        pairs = x[..., : 2 * half].to(compute).unflatten(-1, (-1, 2) if interleaved else (2, -1))
        at = -1 if interleaved else -2
        a, b = pairs.unbind(at)
        turned = torch.stack((a * c - b * s, b * c + a * s), at).flatten(-2).to(x.dtype)
        return torch.cat((turned, x[..., 2 * half :]), -1)

    return rotated(q), rotated(k)
