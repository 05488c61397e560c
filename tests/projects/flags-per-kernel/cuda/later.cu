#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1302
#error "below cuda-minver"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 1000
#error "a capability of another section"
#endif

__global__ void later_kernel(int* out) {
    *out = 100;
}
