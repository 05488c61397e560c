#include "range.h"

#include <sycl/sycl.hpp>

namespace {

// `stream` is the caller's queue.
sycl::queue& queue_of(void* stream) {
    return *static_cast<sycl::queue*>(stream);
}

} // namespace

void vector_add(float* out, const float* a, const float* b, int64_t length, void* stream) {
    queue_of(stream).parallel_for(sycl::range<1>(range_of(length)), [=](sycl::id<1> i) { out[i] = a[i] + b[i]; });
}

void vector_scale(float* out, const float* a, float factor, int64_t length, void* stream) {
    queue_of(stream).parallel_for(sycl::range<1>(range_of(length)), [=](sycl::id<1> i) { out[i] = a[i] * factor; });
}
