#pragma once

#include <torch/csrc/stable/tensor.h>

torch::stable::Tensor add(const torch::stable::Tensor& a, const torch::stable::Tensor& b);
torch::stable::Tensor scale(const torch::stable::Tensor& a, double factor);
