"""Functions as models have them, which no template knows."""

import torch
import torch.nn.functional as F


def gated_norm(x, gate, weight, eps: float = 1e-6):
    """The gated normalization of Mamba-2's mixer."""
    hidden = x * F.silu(gate)
    variance = hidden.float().pow(2).mean(-1, keepdim=True)
    return weight * (hidden * torch.rsqrt(variance + eps)).to(x.dtype)


def example_inputs_partial_rotary():
    return torch.randn(2, 3, 7, 16), torch.randn(7, 16), torch.randn(7, 16)


def partial_rotary(x, cos, sin):
    """Rotary positions whose halves are interleaved, scaled by a length."""
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((-odd, even), dim=-1).flatten(-2)
    return (x * cos + turned * sin) * (x.shape[-1] ** -0.5)


def example_inputs_rotary():
    return torch.randn(2, 3, 7, 16), torch.randn(7, 16), torch.randn(7, 16)


def rotary(x, cos, sin):
    """Rotary embedding of pairs that are half a row apart."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


def example_inputs_rotary_of_heads():
    return torch.randn(2, 7, 3, 16), torch.randn(2, 7, 2, 16), torch.randn(2, 7, 16), torch.randn(2, 7, 16)


def rotary_of_heads(q, k, cos, sin):
    """Rotary embedding of two tensors with their heads in front, as in transformers, for tensors with the positions in front."""

    def turned(x):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

    q, k, cos, sin = q.transpose(1, 2), k.transpose(1, 2), cos.unsqueeze(1), sin.unsqueeze(1)
    q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
    return q.transpose(1, 2), k.transpose(1, 2)


def example_inputs_rotary_pairs():
    x = torch.randn(2, 6, 4, 8, dtype=torch.bfloat16)
    return x, torch.randn(6, 8), torch.randn(6, 8)


def rotary_pairs(x, cos, sin):
    """Rotary embedding of neighbors, with tables in float32, as in transformers for images and video."""
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((-second, first), dim=-1).flatten(-2)
    return (x.float() * cos[None, :, None] + turned.float() * sin[None, :, None]).to(x.dtype)


def example_inputs_sum_and_norm():
    return torch.randn(2, 6, 16), torch.randn(2, 6, 16), torch.randn(2, 1, 16), torch.randn(2, 1, 16)


def sum_and_norm(x, branch, scale, shift):
    """The sum that a block goes on with, and its norm, scaled and shifted for each sample."""
    total = x + branch
    wide = total.float()
    normed = (total * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    return total, normed * (1 + scale) + shift


def example_inputs_smoothed_loss():
    return torch.randn(6, 16), torch.randint(0, 16, (6,))


def smoothed_loss(logits, labels):
    """Cross-entropy with smoothed labels, some of which are ignored."""
    logprobs = torch.log_softmax(logits, dim=-1)
    keep = labels != 1
    picked = logprobs.gather(1, labels.clamp(min=0).unsqueeze(1)).squeeze(1)
    loss = -(0.9 * picked + 0.1 * logprobs.mean(-1))
    loss = torch.where(keep, loss, torch.zeros_like(loss))
    return loss.sum() / keep.sum().clamp(min=1)


def example_inputs_dequantize():
    return torch.randint(-128, 127, (6, 16), dtype=torch.int8), torch.rand(6), torch.randint(0, 2, (6,), dtype=torch.int32)


def dequantize(q, scale, zero):
    """Rows of int8 with a scale and a zero point each."""
    return (q.float() - zero[:, None].float()) * scale[:, None]


def example_inputs_masked_mean():
    return torch.randn(2, 6, 16), torch.rand(2, 6) > 0.3


def masked_mean(hidden, mask):
    """The mean of tokens that are not padding, as sentence encoders take it."""
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def example_inputs_positional_bias():
    return torch.randn(2, 4, 6, 10), torch.randn(4)


def positional_bias(scores, slopes):
    """ALiBi: a bias that grows with the distance of key and query, for each head."""
    query = torch.arange(scores.shape[-2], device=scores.device)[:, None]
    key = torch.arange(scores.shape[-1], device=scores.device)[None, :]
    distance = (key - query).to(scores.dtype)
    return scores + slopes[:, None, None] * distance


def router(logits):
    """The best expert, and its share of a softmax over all."""
    best, expert = logits.max(dim=-1)
    share = torch.exp(best.float() - torch.logsumexp(logits.float(), dim=-1))
    return share.to(logits.dtype), expert


def example_inputs_layer_scale():
    return torch.randn(2, 6, 16), torch.randn(2, 6, 16), torch.randn(16), torch.rand(2, 6, 16) > 0.1


def layer_scale(residual, branch, gamma, kept):
    """LayerScale, dropout with a mask that was drawn, and the residual."""
    dropped = branch * kept / 0.9
    return residual + gamma * dropped


def example_inputs_dropped_branch():
    return torch.randn(2, 6, 16), torch.randn(2, 6, 16), torch.randn(16)


def dropped_branch(residual, branch, gamma):
    """The same with a mask that each call draws."""
    return residual + gamma * F.dropout(branch, 0.1)


def example_inputs_dropped_scores():
    return torch.randn(2, 6, 16), torch.randn(2, 16)


def dropped_scores(scores, values):
    """Weights of an attention that are dropped, what they weigh, and dropout of that."""
    weights = F.dropout(torch.softmax(scores, dim=-1).transpose(-1, -2), 0.25)
    return F.dropout((weights * values[:, :, None]).sum(1), 0.5)


def example_inputs_to_ycbcr():
    return (torch.rand(2, 3, 8, 10),)


def to_ycbcr(image):
    """Colours from RGB to YCbCr."""
    red, green, blue = image.unbind(dim=1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    return torch.stack((luma, 0.564 * (blue - luma) + 0.5, 0.713 * (red - luma) + 0.5), dim=1)


def example_inputs_gated_scan():
    return torch.randn(2, 6, 16), torch.randn(2, 6, 16), torch.randn(2, 6, 16)


def gated_scan(x, step, gate):
    """A scan along the tokens with a gate for what comes in and one for what goes out, in the way of Mamba's mixers."""
    state = torch.cumsum(torch.sigmoid(step) * x, dim=1)
    return state * F.silu(gate)


def shifted_left(x):
    """The last columns after two of padding: a slice that begins at a negative length."""
    return F.pad(x, (0, 2))[..., -x.shape[-1] :] * 1.5


def capped(x):
    """A number that the function makes a tensor of."""
    return torch.minimum(x, torch.tensor(0.5)) * 2


def example_inputs_norm_of_heads():
    return torch.randn(2, 6, 3, 16), torch.randn(16)


def norm_of_heads(x, weight):
    """The norm of the rows of heads, with the heads in front, as attention takes them."""
    wide = x.float()
    return (weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)).transpose(1, 2)


def example_inputs_rotary_of_norms():
    x, tables, weights = (torch.randn(2, 7, 3, 16), torch.randn(2, 7, 2, 16)), torch.randn(2, 2, 7, 16), torch.randn(2, 16)
    return *x, *tables.unbind(), *weights.unbind()


def rotary_of_norms(q, k, cos, sin, q_weight, k_weight):
    """Norms of queries and keys and their rotary embedding, with the heads in front, as in transformers."""

    def turned(x):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

    q, k = norm_of_heads(q, q_weight), norm_of_heads(k, k_weight)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def example_inputs_softmax_of_halves():
    return torch.randn(3, 5, 12), torch.randn(12)


def softmax_of_halves(x, scale):
    """A softmax whose halves change places, of what two reductions of a row decide."""
    found = torch.softmax(x * scale, dim=-1)
    half = x.shape[-1] // 2
    return torch.cat((found[..., half:], -found[..., :half]), dim=-1) + x.abs().amax(-1, keepdim=True)
