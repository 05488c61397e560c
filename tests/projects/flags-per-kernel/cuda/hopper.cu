#if !defined(FOR_HOPPER)
#error "cuda-flags of this section are missing"
#endif

// A macro that only one of nvcc's passes saw would make the two disagree.
#if defined(FOR_THE_HOST) || defined(FOR_THE_BINDING)
#error "host flags reach a .cu"
#endif

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "not compiled for 9.0a"
#endif

static_assert(__cplusplus >= 202002L);

__global__ void hopper_kernel(float* out, float x) {
    *out = expf(x);
}

int hopper() {
    return 90;
}
