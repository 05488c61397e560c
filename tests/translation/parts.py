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
