"""Functions with operators that stay PyTorch's."""

import torch
import torch.nn.functional as F


def example_inputs_gated_mlp():
    return torch.randn(2, 6, 16), torch.randn(16), torch.randn(24, 16), torch.randn(24, 16), torch.randn(16, 24)


def gated_mlp(x, weight, gate, up, down):
    """A norm, a gated feed-forward layer and the residual, as decoders have them."""
    variance = x.float().pow(2).mean(-1, keepdim=True)
    hidden = weight * (x * torch.rsqrt(variance + 1e-6)).to(x.dtype)
    gated = F.silu(F.linear(hidden, gate)) * F.linear(hidden, up)
    return x + F.linear(gated, down)


def example_inputs_dropped_mlp():
    return torch.randn(2, 6, 16), torch.randn(24, 16), torch.randn(16, 24)


def dropped_mlp(x, up, down):
    """A feed-forward layer in training, with dropout after each product."""
    hidden = F.dropout(F.gelu(F.linear(x, up)), 0.25)
    return x + F.dropout(F.linear(hidden, down), 0.1)


class Attention(torch.nn.Module):
    """Attention with a norm before it, and a residual."""

    def __init__(self, hidden: int = 32):
        super().__init__()
        self.norm = torch.nn.LayerNorm(hidden)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.out = torch.nn.Linear(hidden, hidden)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, tokens, 3, 4, hidden // 4).unbind(2)
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, hidden))


def example_inputs_Attention():
    return (torch.randn(2, 6, 32),)


class ConvChain(torch.nn.Module):
    """A convolution, activations and a group norm."""

    def __init__(self, channels: int = 8):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, 16, 3, padding=1)
        self.norm = torch.nn.GroupNorm(4, 16)

    def forward(self, x):
        y = torch.tanh(F.gelu(self.conv(x)) * 1.5)
        return self.norm(y)


def example_inputs_ConvChain():
    return (torch.randn(2, 8, 6, 10),)


def example_inputs_top_share():
    return (torch.randn(6, 16),)


def top_share(logits):
    """The shares of the two best experts."""
    shares = torch.softmax(logits.float(), dim=-1).to(logits.dtype)
    best, expert = torch.topk(shares, 2, dim=-1)
    return best / best.sum(-1, keepdim=True), expert


def example_inputs_product_tail():
    return torch.randn(6, 16), torch.randn(12, 16), torch.randn(12)


def product_tail(x, weight, bias):
    """KernelBench's second level: a product and what follows it."""
    y = F.linear(x, weight, bias)
    y = y - torch.mean(y, dim=1, keepdim=True)
    return F.hardswish(y).max(dim=1).values


class StridedTail(torch.nn.Module):
    """A convolution with a stride, whose lengths no polynomial gives, and sums over what is left."""

    def __init__(self, channels: int = 8):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, 12, 3, stride=2)

    def forward(self, x):
        y = F.mish(self.conv(x)) + 0.5
        return torch.logsumexp(y.mean(dim=(2, 3)), dim=1)


def example_inputs_StridedTail():
    return (torch.randn(2, 8, 7, 11),)


class PooledTail(torch.nn.Module):
    """Poolings of every kind behind convolutions, of which those with large windows stay PyTorch's."""

    def __init__(self, channels: int = 8):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, 12, 3)
        self.deconv = torch.nn.ConvTranspose2d(12, 6, 2, stride=2)

    def forward(self, x):
        y = F.max_pool2d(F.gelu(self.conv(x)), 2) * 0.5
        y = F.avg_pool2d(torch.tanh(self.deconv(y)), 3, stride=2, padding=1)
        return torch.sigmoid(F.max_pool2d(y, 5, stride=1, padding=2, dilation=1)) + y


def example_inputs_PooledTail():
    return (torch.randn(2, 8, 12, 14),)


class WideChain(torch.nn.Module):
    """Convolutions that get their channels last, and norms, a softmax and poolings behind them."""

    def __init__(self, channels: int = 16):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, 24, 3)
        self.second = torch.nn.ConvTranspose2d(24, 16, 3, stride=2, bias=False)
        self.norm = torch.nn.GroupNorm(4, 24)

    def forward(self, x):
        y = F.mish(self.norm(self.first(x)))
        y = torch.softmax(self.second(y), dim=1) * 3.0
        return F.max_pool2d(y, 2), F.instance_norm(y).mean(dim=(2, 3))


def example_inputs_WideChain():
    return (torch.randn(2, 16, 8, 10),)


class Volume(torch.nn.Module):
    """A convolution over three axes, and the smallest along one of them."""

    def __init__(self, channels: int = 3):
        super().__init__()
        self.conv = torch.nn.Conv3d(channels, 16, 3)

    def forward(self, x):
        return torch.softmax(self.conv(x).amin(dim=2), dim=1)


def example_inputs_Volume():
    return (torch.randn(2, 3, 6, 7, 8),)


class Grouped(torch.nn.Module):
    """Convolutions in groups keep their layout, and so does one whose result is returned."""

    def __init__(self, channels: int = 16):
        super().__init__()
        self.grouped = torch.nn.Conv2d(channels, 32, 3, groups=4)
        self.last = torch.nn.Conv2d(32, 16, 1)

    def forward(self, x):
        y = self.last(torch.relu(self.grouped(x)))
        return y, torch.sigmoid(y)


def example_inputs_Grouped():
    return (torch.randn(2, 16, 7, 9),)
