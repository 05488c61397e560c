#include <metal_stdlib>
using namespace metal;

kernel void vector_add(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                       device const float* b [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    out[i] = a[i] + b[i];
}
