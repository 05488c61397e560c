"""Norms as people write them, and some that only look like one."""

import torch
import torch.nn.functional as F
from torch import nn


def llama(hidden_states, weight, variance_epsilon=1e-5):
    dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + variance_epsilon)
    return weight * hidden_states.to(dtype)


def by_sum(w, x):
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + 1e-5) * w


def own(input: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return F.rms_norm(input, (input.shape[-1],), weight, eps)


class LlamaRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(dtype)


class FixedLayerNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x)


def layer_by_hand(x, g, b):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * g + b


def layer_by_var(x, g, b):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt() * g + b


def layer_optional(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def added(x, residual, weight, eps=1e-6):
    total = x + residual
    return F.rms_norm(total, (total.shape[-1],), weight, eps), total


def added_in_place(x, residual, weight, eps=1e-6):
    residual += x
    return residual * torch.rsqrt(residual.pow(2).mean(-1, keepdim=True) + eps) * weight, residual


def modulated(x, shift, scale):
    return F.layer_norm(x, (x.shape[-1],), eps=1e-6) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def layer_without_mean(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def layer_no_bias(x, w, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), w, None, eps)


def layer_plain(x):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


def rms_plain(x, eps=1e-6):
    return F.rms_norm(x, (x.shape[-1],), eps=eps)


class LayerNoBias(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, bias=False)

    def forward(self, x):
        return self.norm(x)


class LayerNotAffine(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)

    def forward(self, x):
        return self.norm(x)


def groups(x, w, b):
    return F.group_norm(x, 32, w, b)


def eight_groups(x, weight, bias):
    return F.group_norm(x, 8, weight, bias, 1e-6)


def groups_by_hand(x, w, b, num_groups=32, eps=1e-5):
    n, c, height, width = x.shape
    x = x.reshape(n, num_groups, -1)
    x = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + eps)
    return x.reshape(n, c, height, width) * w.view(1, -1, 1, 1) + b.view(1, -1, 1, 1)


class Groups(nn.Module):
    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels, eps=eps)

    def forward(self, x):
        return self.norm(x)


class FixedGroups(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=8, num_channels=64, affine=False)

    def forward(self, x):
        return self.norm(x)


# From here on: none of them.


class Gemma(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        output = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (output * (1.0 + self.weight.float())).type_as(x)


def eps_outside(x, w, eps=1e-6):
    return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps) * w


def eps_of_the_dtype(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight)


def no_mean_but_a_bias(x, weight, bias, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight + bias


def unbiased(x, g, b):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt() * g + b


def rounded(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6).to(torch.bfloat16).to(x.dtype)


def clamped(x, w):
    return F.rms_norm(x.clamp(-1e9, 1e9), (x.shape[-1],), w, 1e-6)


def writes(x, w, eps=1e-6):
    x *= torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return x * w


def over_columns(x, w, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(0, keepdim=True) + eps) * w


def only_short(x, w, eps=1e-6):
    x = x if x.shape[-1] < 100 else x.abs()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w
