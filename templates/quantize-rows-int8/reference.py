"""What `quantize_rows_int8` computes, in plain PyTorch. On float64 it is the oracle, on real dtypes the baseline."""

import torch


def quantize_rows_int8(input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row of `input` [rows, hidden] divided by its scale and rounded to int8, and the scales [rows]: the largest
    size in the row over 127, as vLLM's dynamic quantisation per token. What lies halfway between two integers becomes
    the even one; vLLM rounds the quotient before, and may get the other there.

    A row of zeros has the scale 0. A row with an infinity or NaN becomes zeros, and its scale shows it. Anything but
    float64 is computed in float32.
    """
    x = input.to(torch.promote_types(input.dtype, torch.float32))
    largest = x.abs().amax(dim=-1, keepdim=True)
    # The product first: in float64 it is exact.
    q = torch.where((largest > 0) & largest.isfinite(), x * 127.0 / largest, 0.0)
    return q.round().to(torch.int8), largest.squeeze(-1) / 127.0
