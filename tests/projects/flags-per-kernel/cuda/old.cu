#if defined(FOR_HOPPER) || defined(FOR_THE_HOST) || defined(FOR_THE_BINDING)
#error "flags of another section"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 860
#error "a capability of another section"
#endif

__global__ void old_kernel(int* out) {
    *out = 80;
}

int old() {
    return 80;
}
