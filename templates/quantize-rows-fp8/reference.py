"""What `quantize_rows_fp8` computes, in plain PyTorch. On float64 it is the oracle, on real dtypes the baseline."""

import torch

LARGEST = 448.0
# Rows of zeros have this scale, as in vLLM.
SMALLEST_SCALE = 1.0 / (LARGEST * 512.0)


def quantize_rows_fp8(input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row of `input` [rows, hidden] divided by its scale and rounded to float8_e4m3fn, and the scales [rows]: the
    largest size in the row over 448, as vLLM's dynamic quantisation per token.

    Float64 is divided and stays float64; everything else is computed in float32, and scales are float32.
    """
    x = input.to(torch.promote_types(input.dtype, torch.float32))
    scale = (x.abs().amax(dim=-1) / LARGEST).clamp(min=SMALLEST_SCALE)
    q = x / scale.unsqueeze(-1)
    return q if input.dtype == torch.float64 else q.to(torch.float8_e4m3fn), scale
