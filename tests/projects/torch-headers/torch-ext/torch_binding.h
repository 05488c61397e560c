#pragma once

#include <torch/torch.h>

// out = min(max(input, low), high), element by element.
void clamp(torch::Tensor& out, const torch::Tensor& input, double low, double high);
