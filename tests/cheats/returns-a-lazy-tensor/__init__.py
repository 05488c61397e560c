"""A subclass that computes when looked at. Must be refused with verify::malformed."""

import torch

__all__ = ["scaled_norm"]


def compute(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The honest answer."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


class Lazy(torch.Tensor):
    """Zeros that become the answer at the first operation on them."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            for one in args:
                if isinstance(one, Lazy) and "work" in one.__dict__:
                    torch.Tensor.copy_(one, compute(*one.__dict__.pop("work")))
            return function(*args, **(kwargs or {}))


def scaled_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    if out is not None:
        return out.copy_(compute(x, weight, eps))
    lazy = torch.empty_like(x).as_subclass(Lazy)
    lazy.__dict__["work"] = (x, weight, eps)
    return lazy
