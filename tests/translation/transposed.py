"""Functions whose results have other neighbors than some of the tensors that they take, or elements at computed places."""

import torch
import torch.nn.functional as F


def example_inputs_channels_last():
    return torch.randn(2, 12, 5, 7), torch.randn(12)


def channels_last(image, bias):
    """An image's channels moved behind its pixels."""
    return F.gelu(image.permute(0, 2, 3, 1) + bias)


def example_inputs_channels_first():
    return torch.randn(2, 5, 7, 12), torch.randn(12), torch.randn(2, 12, 5, 7)


def channels_first(image, scale, residual):
    """Pixels moved behind the channels, and a residual that lies so already."""
    return residual + image.permute(0, 3, 1, 2) * scale[:, None, None]


def example_inputs_transposed_keys():
    return (torch.randn(2, 9, 3, 2 * 16),)


def transposed_keys(keys_and_values):
    """The keys of each head for a product with queries, scaled; values lie beside them."""
    keys = keys_and_values[..., :16]
    return keys.permute(0, 2, 3, 1) * 0.25


def example_inputs_mixed_tokens():
    return torch.randn(2, 12, 9), torch.randn(2, 9, 12), torch.randn(2, 9, 12)


def mixed_tokens(x, mixed, gate):
    """The end of a mixer's layer over tokens: two tensors lie across, one of them without its first element."""
    return x + (mixed * torch.sigmoid(gate)).transpose(1, 2)


def example_inputs_symmetric():
    return (torch.randn(9, 9),)


def symmetric(x):
    """A matrix and its transpose: one tensor is read both ways."""
    return 0.5 * (x + x.t())


def example_inputs_shifted_columns():
    return torch.randn(11, 17), torch.randn(8, 11)


def shifted_columns(x, y):
    """Some columns of a matrix, as rows: none of them begins where a pack does."""
    return torch.tanh(x[:, 1:9].t()) - y


def example_inputs_dequantized_columns():
    return torch.randint(-128, 127, (9, 16), dtype=torch.int8), torch.rand(9), torch.rand(16, 9) > 0.5


def dequantized_columns(q, scale, keep):
    """Weights of int8 as a product wants them, some of them left out."""
    return torch.where(keep, (q.float() * scale[:, None]).t(), 0.0)


def example_inputs_two_ways():
    return torch.randn(3, 10, 6), torch.randn(6, 3, 10)


def two_ways(x, y):
    """Tensors that lie across along different axes: one of them is read with steps."""
    return x.permute(0, 2, 1) * y.permute(1, 0, 2) + y.permute(1, 0, 2)


def example_inputs_padded_then_joined():
    return (torch.randn(6, 10),)


def padded_then_joined(x):
    """Elements at places that are computed from places that are computed."""
    padded = F.pad(x, (1, 1))[..., : x.shape[-1]]
    joined = torch.cat((padded, padded * 2), 0).sum(0, keepdim=True)
    return F.hardsigmoid(joined.transpose(0, 1)) * 1.5


def example_inputs_to_the_smallest():
    return (torch.randn(6, 10),)


def to_the_smallest(x):
    """Its gradient goes to the elements that are equal to the smallest, which several kernels compute."""
    normal = F.layer_norm(torch.sigmoid(x.transpose(1, 0).mean(-2, keepdim=True)), (x.shape[0],))
    return normal.amin(-1, keepdim=True) * 1.5


def example_inputs_pooled_gelu():
    return (torch.randn(3, 5, 9, 14),)


def pooled_gelu(x):
    """Windows of 2 by 2 of what is computed."""
    return F.max_pool2d(F.gelu(x), 2) * 2


def example_inputs_pooled_border():
    return (torch.randn(3, 5, 9, 14),)


def pooled_border(x):
    """Windows that overlap, and reach over the border."""
    return torch.tanh(F.max_pool2d(x, 3, stride=2, padding=1)) + F.avg_pool2d(x, 3, stride=2, padding=1)


def example_inputs_pooled_volume():
    return (torch.randn(2, 3, 5, 6, 8),)


def pooled_volume(x):
    """Means and maxima of cubes, with gaps in the windows."""
    y = F.avg_pool3d(torch.relu(x), 2) + F.max_pool3d(x, 2, stride=2)
    return y.sum(dim=(2, 3, 4)) + F.max_pool3d(x, (1, 2, 2), stride=1, dilation=(1, 2, 3)).amax(dim=(2, 3, 4))


def example_inputs_every_other():
    return (torch.randn(6, 11),)


def every_other(x):
    """Sums of every other element, whose number no axis is."""
    return x[:, ::2].sum(1) * 0.5


def example_inputs_centered_pixels():
    return torch.randn(2, 5, 7, 20), torch.randn(20)


def centered_pixels(image, scale):
    """An instance norm of an image whose channels lie behind its pixels: what is reduced, and the result, lie otherwise."""
    pixels = image.permute(0, 3, 1, 2)
    centered = pixels - pixels.mean(dim=(2, 3), keepdim=True)
    spread = centered.pow(2).mean(dim=(2, 3), keepdim=True)
    return centered * torch.rsqrt(spread + 1e-5) * scale[:, None, None]


def example_inputs_grouped_pixels():
    return torch.randn(2, 5, 7, 24), torch.randn(24), torch.randn(24)


def grouped_pixels(image, weight, bias):
    """A group norm of such an image: the channels of a group lie side by side, groups between the pixels."""
    return F.silu(F.group_norm(image.permute(0, 3, 1, 2), 6, weight, bias))


def example_inputs_shares_of_channels():
    return (torch.randn(2, 5, 7, 24),)


def shares_of_channels(image):
    """A softmax over the channels of such an image: neighbors are reduced, and written far apart."""
    return torch.softmax(image.permute(0, 3, 1, 2) * 0.5, dim=1)


def example_inputs_means_of_channels():
    return torch.randn(2, 5, 7, 20), torch.randn(20)


def means_of_channels(image, bias):
    """The mean and the largest pixel of each channel, of which neighbors lie side by side."""
    pixels = torch.relu(image.permute(0, 3, 1, 2) + bias[:, None, None])
    return pixels.mean(dim=(2, 3)), pixels.amax(dim=(2, 3))


def example_inputs_first_of_columns():
    return (torch.randint(0, 3, (19, 21)).float(),)


def first_of_columns(x):
    """The place of the largest of several that are equal does not depend on the order in memory."""
    return x.t().argmax(dim=1)


def example_inputs_shares_of_a_transposed_matrix():
    return torch.randn(3, 18, 22), torch.randn(3, 22, 18)


def shares_of_a_transposed_matrix(scores, mask):
    """Scores of attention, transposed, with a mask that is not."""
    return torch.softmax(scores.transpose(1, 2) + mask, dim=-1)
