"""x * sigmoid(x), in Triton on a GPU."""

import torch

from ._ops import add_op_namespace_prefix
from .blocks import block_of

__all__ = ["block_of", "silu"]


@torch.library.custom_op(add_op_namespace_prefix("silu"), mutates_args=())
def silu(x: torch.Tensor) -> torch.Tensor:
    if x.device.type == "cpu":
        return x * torch.sigmoid(x)
    from .gpu import silu as on_gpu

    return on_gpu(x)


@silu.register_fake
def _(x):
    return torch.empty_like(x)
