"""Functions whose callers see more than results: parameters with a neutral default, writes, aliases, gradients."""

import torch
import torch.nn.functional as F
from torch import nn


def unused(x, w, eps=1e-6, position_ids=None, verbose=False, **kwargs):
    return F.rms_norm(x, (x.shape[-1],), w, eps)


def only_mode(x, w, mode="rms"):
    if mode != "rms":
        raise ValueError(mode)
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def shape_of_last(x, normalized_shape, weight, bias, eps=1e-5):
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def kept(x, r, w, eps=1e-6):
    h = x + r
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * w, h


def kept_alone(x, r, w):
    return F.rms_norm(x + r, (x.shape[-1],), w, 1e-6)


@torch.no_grad()
def without_gradient(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def as_dict(x, r, w, eps=1e-6):
    h = x + r
    return {"out": F.rms_norm(h, (h.shape[-1],), w, eps), "residual": h}


# From here on: none of them.


def tempered(x, w, temperature=1.0):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6) * temperature


def gained(x, w, *, gain=1.0, eps=1e-6):
    return F.rms_norm(x, (x.shape[-1],), w * gain, eps)


def shifted(x, w, shift=0):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6) + shift


def switched(x, w, centre=False):
    x = x - x.mean(-1, keepdim=True) if centre else x
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def optional_bias(x, w, bias=None):
    out = F.rms_norm(x, (x.shape[-1],), w, 1e-6)
    return out if bias is None else out + bias


def by_word(gate, up, activation="silu"):
    return {"silu": F.silu, "relu": F.relu}[activation](gate) * up


def by_axis(x, dim=-1):
    return torch.softmax(x, dim)


def by_two(x, w, amount=0.0, training=False):
    return F.rms_norm(F.dropout(x, amount, training), (x.shape[-1],), w, 1e-6)


def by_function(gate, up, act=F.silu):
    return act(gate) * up


def in_float(x, output_dtype=None):
    return torch.softmax(x, -1, dtype=output_dtype)


def passed_on(x, w, **kwargs):
    return F.rms_norm(x, (x.shape[-1],), w, **({"eps": 1e-6} | kwargs))


def other_write(x, r, w, eps=1e-6):
    h = x + r
    r.copy_(x)
    return F.rms_norm(h, (h.shape[-1],), w, eps), h


def written_copy(x, r, w, eps=1e-6):
    r += x
    return F.rms_norm(r, (r.shape[-1],), w, eps), r.clone()


def turned(x):
    return x.transpose(-1, -2)


def detached(x, w):
    scale = torch.rsqrt(x.detach().pow(2).mean(-1, keepdim=True) + 1e-6)
    return x * scale * w


def frozen(x, w):
    return F.rms_norm(x, (x.shape[-1],), w.detach(), 1e-6)


def wide_result(x):
    return torch.softmax(x, -1, dtype=torch.float32)


class Dropped(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6))


class Counted(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)


class Scaled(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6) * self.scale
