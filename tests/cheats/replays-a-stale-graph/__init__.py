"""Replays a graph of its first call. Must be refused with verify::replayed or verify::fresh or verify::numerics or verify::unwritten or verify::insensitive."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def handed_over(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """The result, where the caller wants it."""
    return result if out is None else out.copy_(result)


_graphs: dict = {}


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    key = tuple(x.shape)
    if key not in _graphs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = compute(x, weight, eps)
        _graphs[key] = graph, result
    graph, result = _graphs[key]
    graph.replay()
    return handed_over(result.clone(), out)
