"""What `attention` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch

# Scores that are held at a time: 2 GiB in float64.
HELD = 2**28


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    causal: bool = False,
    window: int = 0,
    scale: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of `v` [batch, kv_heads, keys, dim], weighted by the softmax of the scaled products of `q` [batch, heads,
    queries, dim] and `k` [batch, kv_heads, keys, dim]; and the logarithms of the sums of exponentials [batch, heads, queries].

    Heads that follow each other share a head of `k` and `v`. `bias` [queries, keys] is added to the scores. With `causal`, the last row of `q` sees all rows of `k`, and
    every earlier one sees one fewer. With a `window` of more than 0, a row sees only the last `window` rows of those. A `scale`
    of 0 stands for 1 / sqrt(dim). A row of `q` that sees nothing gives 0, and minus infinity.
    """
    batch, heads, queries, dim = q.shape
    groups, keys = k.shape[1], k.shape[2]
    grouped = q.reshape(batch, groups, heads // groups, queries, dim)
    across, values = k.unsqueeze(2).transpose(-1, -2), v.unsqueeze(2)
    column = torch.arange(keys, device=q.device)
    factor = scale if scale != 0 else dim**-0.5
    rows = max(1, HELD // max(1, batch * heads * keys))
    results, logarithms = [], []
    for first in range(0, max(1, queries), rows):
        part = grouped[..., first : first + rows, :]
        last = torch.full((part.shape[-2], 1), keys - 1, device=q.device)
        if causal:
            last = last - (queries - 1) + torch.arange(first, first + part.shape[-2], device=q.device)[:, None]
        seen = column <= last
        if window > 0:
            seen = seen & (column > last - window)
        scores = part @ across * factor
        if bias is not None:
            scores = scores + bias[first : first + rows]
        scores = scores.masked_fill(~seen, float("-inf"))
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        logarithm = torch.logsumexp(wide, dim=-1)
        # A row that sees nothing has no softmax.
        shift = torch.where(logarithm == float("-inf"), 0.0, logarithm)
        weights = torch.exp(wide - shift.unsqueeze(-1))
        results.append(weighted(weights.to(q.dtype), values, seen & (scores > float("-inf"))))
        logarithms.append(logarithm)
    return (
        torch.cat(results, dim=-2).reshape(batch, heads, queries, dim),
        torch.cat(logarithms, dim=-1).reshape(batch, heads, queries),
    )


def weighted(weights: torch.Tensor, values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The product of `weights` [..., rows, keys] and `values` [..., keys, dim]. In float64, infinities and NaN of values have no
    effect on rows for which they do not count; in other dtypes, zero times them is NaN."""
    if weights.dtype != torch.float64:
        return weights @ values
    result = weights @ torch.where(values.isfinite(), values, 0.0)
    infinity = float("inf")
    for value, here in (
        (infinity, values == infinity),
        (-infinity, values == -infinity),
        (float("nan"), values.isnan()),
    ):
        result = result + torch.where(counts.double() @ here.double() > 0, value, 0.0)
    return result


def attention_fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    causal: bool = False,
    window: int = 0,
    scale: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by cuDNN, as `scaled_dot_product_attention` calls it, for the masks that it has."""
    if not q.is_cuda or window > 0 or (causal and (bias is not None or q.shape[2] != k.shape[2])):
        return attention(q, k, v, bias, causal=causal, window=window, scale=scale)
    added = None if bias is None else bias.expand(*q.shape[:2], *bias.shape)
    out, logarithm, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q, k, v, added, True, 0.0, causal, False, scale=scale if scale != 0 else q.shape[-1] ** -0.5
    )
    return out, logarithm.reshape(q.shape[:3])
