"""Softmax, losses and reductions as people write them, and some that only look like one."""

import torch
import torch.nn.functional as F


def soft(x):
    return torch.softmax(x, dim=-1)


def soft_by_hand(scores):
    e = torch.exp(scores - torch.max(scores, dim=-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def soft_unsafe(scores):
    e = scores.exp()
    return e / e.sum(-1, keepdim=True)


def log_of_sum(x):
    return x - torch.logsumexp(x, -1, keepdim=True)


def log_soft(x):
    return F.log_softmax(x, -1)


def losses(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


def mean_loss(logits, labels):
    return F.cross_entropy(logits, labels)


def gathered(labels, logits):
    return -torch.log_softmax(logits, -1).gather(-1, labels[:, None]).squeeze(-1)


def sums(x):
    return x.sum(-1)


def means(x):
    return x.mean(dim=-1, keepdim=True)


def divided(x):
    return x.sum(-1) / x.shape[-1]


def largest(x):
    return x.max(-1)


def values(x):
    return x.amax(-1)


# From here on: none of them.


def over_columns(x):
    return torch.softmax(x, dim=0)


def clamped(x):
    return torch.softmax(x.clamp(-1e6, 1e6), -1)


def cleaned(x):
    return torch.softmax(torch.nan_to_num(x), -1)


def tempered(x):
    return torch.softmax(x / 1.5, -1)


def smoothed(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1)


def total(x):
    return x.sum()


def smallest(x):
    return x.amin(-1)


def product(x, w):
    return x @ w
