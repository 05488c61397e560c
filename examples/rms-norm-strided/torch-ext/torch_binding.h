// The operators that torch sees, with the signatures that torch_binding.cpp registers.
#pragma once

#include <torch/csrc/stable/tensor.h>

// A new contiguous tensor of the shape of `input`: input / sqrt(mean(input^2, last axis) + eps) * weight.
torch::stable::Tensor rms_norm(const torch::stable::Tensor& input, const torch::stable::Tensor& weight, double eps);

// The same, written to `out`, which has the shape, dtype and device of `input`.
void rms_norm_out(torch::stable::Tensor out, const torch::stable::Tensor& input, const torch::stable::Tensor& weight,
                  double eps);
