"""What `permute_cast` computes, in plain PyTorch. On float64 tensors it is the oracle, on real dtypes the baseline."""

import torch

# As op.toml has it for `out`.
OUT = torch.bfloat16


def permute_cast(input: torch.Tensor) -> torch.Tensor:
    """`input` [batch, tokens, heads, dim] as dense [batch, heads, tokens, dim], in `OUT`; float64 stays float64."""
    dtype = input.dtype if input.dtype == torch.float64 else OUT
    return input.permute(0, 2, 1, 3).to(dtype, memory_format=torch.contiguous_format, copy=True)
