"""A sound task: every parameter matters and nothing passes that does no work."""

import torch


def layer_norm(x, weight, bias, eps: float = 1e-5):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)
