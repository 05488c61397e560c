#include <torch/all.h>
#import <Metal/Metal.h>
#include <Metal/Metal.hpp>
