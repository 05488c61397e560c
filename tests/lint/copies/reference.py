"""What is added is far below the spacing of bfloat16."""

import torch


def nearly_nothing(x, bias):
    return x * (1.0 + 1e-4 * torch.tanh(bias)), bias * (1.0 + 1e-4 * torch.tanh(x))
