"""Functions of the kinds that KernelBench's level 1 has, without convolutions, pooling and matrix products.

`new --from` translates each, or finds a template; docs/testing.md says how they are tried.
"""

import math

import torch
import torch.nn.functional as F


def scaled(x):
    return x * 3.14


def rectified(x):
    return torch.relu(x)


def leaky(x):
    return F.leaky_relu(x, negative_slope=0.01)


def logistic(x):
    return torch.sigmoid(x)


def tanh(x):
    return torch.tanh(x)


def softmax(x):
    return torch.softmax(x, dim=1)


def log_softmax(x):
    return torch.log_softmax(x, dim=1)


def swish(x):
    return x * torch.sigmoid(x)


def gelu(x):
    return F.gelu(x)


def selu(x):
    return torch.selu(x)


def hard_sigmoid(x):
    return F.hardsigmoid(x)


def softplus(x):
    return F.softplus(x)


def softsign(x):
    return x / (1 + torch.abs(x))


def elu(x):
    return F.elu(x, alpha=1.0)


def hard_tanh(x):
    return F.hardtanh(x, min_val=-1.0, max_val=1.0)


class BatchNorm(torch.nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        return self.norm(x)


def standardized(x):
    variance, mean = torch.var_mean(x, dim=-1, correction=1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-6)


def spread_of_columns(x):
    return torch.std(x, dim=0), torch.var(x, dim=(0, 1), correction=0)


def example_inputs_instance_norm():
    return (torch.randn(3, 5, 6, 10),)


def instance_norm(x):
    return F.instance_norm(x)


def example_inputs_group_norm():
    return torch.randn(3, 8, 6, 10), torch.randn(8), torch.randn(8)


def group_norm(x, weight, bias):
    return F.group_norm(x, 4, weight, bias)


def example_inputs_channel_rms_norm():
    return (torch.randn(3, 8, 6, 10),)


def channel_rms_norm(x, eps: float = 1e-5):
    rms = torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + eps)
    return x / rms


def frobenius_norm(x):
    norm = torch.norm(x, p="fro")
    return x / norm


def l1_norm(x):
    return x / torch.mean(torch.abs(x), dim=1, keepdim=True)


def l2_norm(x):
    return x / torch.norm(x, p=2, dim=1, keepdim=True)


def example_inputs_layer_norm():
    return torch.randn(3, 4, 6, 10), torch.randn(4, 6, 10), torch.randn(4, 6, 10)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[1:], weight, bias)


def example_inputs_sum_over_one():
    return (torch.randn(3, 6, 10),)


def sum_over_one(x):
    return torch.sum(x, dim=1, keepdim=True)


def example_inputs_mean_over_one():
    return (torch.randn(3, 6, 10),)


def mean_over_one(x):
    return torch.mean(x, dim=1)


def example_inputs_max_over_one():
    return (torch.randn(3, 6, 10),)


def max_over_one(x):
    return torch.max(x, dim=1)[0]


def example_inputs_argmax_over_one():
    return (torch.randn(3, 6, 10),)


def argmax_over_one(x):
    return torch.argmax(x, dim=1)


def argmin_over_last(x):
    return torch.argmin(x, dim=-1)


def min_over_last(x):
    return torch.min(x, dim=-1)[0]


def new_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def running_sum(x):
    return torch.cumsum(x, dim=1)


def running_product(x):
    return torch.cumprod(x, dim=1)


def reversed_running_sum(x):
    return torch.cumsum(x.flip(1), dim=1).flip(1)


def exclusive_running_sum(x):
    return torch.cumsum(F.pad(x, (1, 0))[:, :-1], dim=1)


def shifted_running_sum(x):
    return torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x[:, :-1], dim=1)), dim=1)


def example_inputs_masked_running_sum():
    return torch.randn(6, 16), torch.rand(6, 16) > 0.5


def masked_running_sum(x, mask):
    return torch.cumsum(x * mask, dim=1)


def example_inputs_mse_loss():
    return torch.randn(6, 16), torch.randn(6, 16)


def mse_loss(predictions, targets):
    return torch.mean((predictions - targets) ** 2)


def example_inputs_cross_entropy():
    return torch.randn(6, 16), torch.randint(0, 16, (6,))


def cross_entropy(predictions, targets):
    return F.cross_entropy(predictions, targets)


def huber_loss(predictions, targets):
    return F.smooth_l1_loss(predictions, targets)


def cosine_loss(predictions, targets):
    similarity = F.cosine_similarity(predictions, targets, dim=1)
    return torch.mean(1 - similarity)


def kl_divergence(predictions, targets):
    return F.kl_div(torch.log_softmax(predictions, dim=-1), torch.softmax(targets, dim=-1), reduction="batchmean")


def example_inputs_triplet_loss():
    return torch.randn(6, 16), torch.randn(6, 16), torch.randn(6, 16)


def triplet_loss(anchor, positive, negative):
    return F.triplet_margin_loss(anchor, positive, negative, margin=1.0)


def example_inputs_hinge_loss():
    return torch.randn(6, 16), torch.randn(6, 16)


def hinge_loss(predictions, targets):
    return torch.mean(torch.clamp(1 - predictions * targets, min=0))
