"""Functions that differ from a template only in places that few tests reach, and below the line some that are served."""

import functools
from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import nn

KINDS = {"silu": F.silu, "relu squared": lambda x: F.relu(x).square()}
Settings = namedtuple("Settings", ["eps", "centre"])


def rms(x, w, eps=1e-6):
    return F.rms_norm(x, (x.shape[-1],), w, eps)


class MovingAverage(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.register_buffer("running", torch.zeros(dim))

    def forward(self, x):
        if self.training:
            self.running.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return rms(x, self.weight)


class SilentAverage(nn.Module):
    """The buffer is not in the state dict."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.seen.add_(x.detach().abs().mean())
        return rms(x, self.weight)


def eps_of_half(x, w):
    return rms(x, w, 1e-3 if x.dtype == torch.float16 else 1e-6)


def clamped_in_half(x, w):
    y = rms(x, w)
    return y.clamp(-1, 1) if y.dtype == torch.float16 else y


def clamped_in_bfloat16(x, w):
    y = rms(x, w)
    return y.clamp(-1, 1) if y.dtype == torch.bfloat16 else y


def checked_in_half(x, w):
    if x.dtype == torch.float16 and not x.isfinite().all():
        return torch.zeros_like(x)
    return rms(x, w)


def residual_in_float(x, r, w, residual_in_fp32=False):
    h = x + r
    return rms(h, w), h.float() if residual_in_fp32 else h


def by_hyphen(x, w, mode="rms"):
    return rms(x - x.mean(-1, keepdim=True) if mode == "zero-mean" else x, w)


def centred(x, mode):
    return x - x.mean(-1, keepdim=True) if mode == "centre first" else x


def by_helper(x, w, mode="rms"):
    return rms(centred(x, mode), w)


def by_table(gate, up, kind="silu"):
    return KINDS[kind](gate) * up


def scaling(function):
    @functools.wraps(function)
    def scaled(x, w, gain=1.0):
        return function(x, w) * gain

    return scaled


@scaling
def decorated(x, w, gain=1.0):
    return rms(x, w)


class Shifted(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.register_buffer("shift", torch.zeros(dim, dtype=torch.int64))

    def forward(self, x):
        return rms(x, self.weight) + self.shift


class Skipped(nn.Module):
    """One of ten calls in training returns the input."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        if self.training and torch.rand(()) < 0.1:
            return x
        return rms(x, self.weight)


def by_settings(x, w, settings=Settings(1e-6, False)):
    return rms(x - x.mean(-1, keepdim=True) if settings.centre else x, w, settings.eps)


def by_late_pair(x, w, a=0, b=0, c=0, d=0, e=0, f=0, amount=0.0, drops=False):
    if None in (a, b, c, d, e, f):
        raise ValueError("a number is missing")
    return rms(F.dropout(x, amount, drops), w)


def turned_copy(x):
    return x.clone().transpose(-1, -2)


class Bounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-30, 30)


def bounded_gradient(x, w):
    return rms(Bounded.apply(x), w)


# From here on: a template serves them.


def residual_first(residual, x, w):
    residual += x
    return rms(residual, w), residual


def with_ones(x, w):
    return rms(x, w) * torch.ones(x.shape[-1])


def not_in_half(x, w):
    if x.dtype == torch.float16:
        raise TypeError("float16 overflows here")
    return rms(x, w)


def unread_settings(x, w, settings=Settings(1e-6, False)):
    return rms(x, w)
