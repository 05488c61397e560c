// The operator that torch sees.
#pragma once

#include <torch/csrc/stable/tensor.h>

// A new tensor [rows]: the inner product of every row of `x` with `weight`.
torch::stable::Tensor row_dot(const torch::stable::Tensor& x, const torch::stable::Tensor& weight);
