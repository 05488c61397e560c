"""Gated activations and rotations as people write them, and some that only look like one."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def chunks(x):
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def sigmoids(g, u):
    return g * torch.sigmoid(g) * u


def gates_last(x):
    up, gate = x.chunk(2, dim=-1)
    return up * F.silu(gate)


def gates_last_by_slices(x):
    half = x.shape[-1] // 2
    return F.silu(x[..., half:]) * x[..., :half]


def two_tensors(up, gate):
    return up * F.silu(gate)


class DiffusersSwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = nn.SiLU()

    def forward(self, hidden_states):
        hidden_states, gate = hidden_states.chunk(2, dim=-1)
        return hidden_states * self.activation(gate)


def gelu_tanh(x):
    gate, up = x.chunk(2, -1)
    return F.gelu(gate, approximate="tanh") * up


def gelu_erf(gate, up):
    return F.gelu(gate) * up


def gelu_by_hand(g, up):
    return 0.5 * g * (1 + torch.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3))) * up


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def transformers(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def one(x, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def two(q, k, cos, sin):
    return one(q, cos, sin), one(k, cos, sin)


# From here on: none of them.


def quick(g, up):
    return g * torch.sigmoid(1.702 * g) * up


def relu(g, up):
    return F.relu(g) * up


def backwards(q, k, cos, sin):
    return one(q, cos, sin), one(k, cos, -sin)


def silu_alone(x):
    return F.silu(x)
