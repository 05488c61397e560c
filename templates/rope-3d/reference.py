"""What `rope_3d` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch


def rope_3d(
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    time_pairs: int = 22,
    height_pairs: int = 21,
    interleaved: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`q` [tokens, heads, dim] and `k` [tokens, kv_heads, dim] with each pair rotated: (a, b) becomes
    (a cos - b sin, b cos + a sin). `cos_sin` [table, dim] has the cosines of every pair in a row, then the sines.

    `positions` [tokens, 3] has the time, height and width of a token: the first `time_pairs` pairs of a head take their
    angles from the row of its time, the next `height_pairs` from that of its height, the others from that of its width.
    Without them the table has a row for each token. Pairs are neighbors if `interleaved`, else half a head apart.
    Half-precision tensors are computed in float32 and rounded once, at the end; float64 stays float64.
    """
    compute = torch.promote_types(q.dtype, torch.float32)
    pairs = torch.arange(q.shape[-1] // 2, device=q.device)
    if positions is None:
        angles = cos_sin[: q.shape[0]].unflatten(-1, (2, -1))
    else:
        axis = (pairs >= time_pairs).long() + (pairs >= time_pairs + height_pairs).long()
        angles = cos_sin.unflatten(-1, (2, -1))[positions[:, axis], :, pairs].transpose(-2, -1)
    c, s = angles.to(compute).unsqueeze(1).unbind(-2)

    def rotated(x: torch.Tensor) -> torch.Tensor:
        pairs = x.to(compute).unflatten(-1, (-1, 2) if interleaved else (2, -1))
        at = -1 if interleaved else -2
        a, b = pairs.unbind(at)
        return torch.stack((a * c - b * s, b * c + a * s), at).flatten(-2).to(x.dtype)

    return rotated(q), rotated(k)
