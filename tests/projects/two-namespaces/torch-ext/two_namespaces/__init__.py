import torch

from . import _ops

number = _ops.ops.number
more_number = getattr(torch.ops, _ops.add_op_namespace_prefix("").removesuffix("::") + "_more").number
