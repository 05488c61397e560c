#if defined(FOR_HOPPER) || defined(FOR_THE_HOST) || defined(FOR_THE_BINDING)
#error "flags of a section, or host flags, reach a .cu"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 860 && __CUDA_ARCH__ != 900
#error "a capability of no section"
#endif

__global__ void every_kernel(int* out) {
    *out = 1000;
}

int every() {
    return 1000;
}
