// The operator that torch sees.
#pragma once

#include <optional>

#include <torch/csrc/stable/tensor.h>

// residual += x + bias; out = residual * factor, from before its rounding.
void add_scale(torch::stable::Tensor out, torch::stable::Tensor residual, const torch::stable::Tensor& x,
               const std::optional<torch::stable::Tensor>& bias, double factor);
