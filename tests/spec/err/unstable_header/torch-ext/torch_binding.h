#pragma once
#include <torch/csrc/stable/tensor.h>
