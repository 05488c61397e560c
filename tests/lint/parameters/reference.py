"""`unused` and `epsilon` change nothing, `alike` has one row for all, and `bias` is never passed."""

import torch


def gated(x, scale, unused, bias, epsilon: float = 1e-12, factor: float = 0.5):
    y = x + factor * scale + epsilon
    alike = (scale + 1.0).expand_as(x).contiguous()
    return y if bias is None else y + bias, alike
