#include <torch/all.h>

void clamp(torch::Tensor& out, const torch::Tensor& input, double low, double high) {
    TORCH_CHECK(out.sizes() == input.sizes(), "out and input must have the same shape");
    at::clamp_out(out, input, low, high);
}
