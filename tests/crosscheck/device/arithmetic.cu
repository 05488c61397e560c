// Arithmetic: what libdevice holds, what becomes calls of the compiler's own (division, square roots), integers,
// control flow. Device code alone: NVRTC compiles no other.

namespace {

template <typename T>
__device__ T polynomial(T x) {
    T sum = T(0);
#pragma unroll
    for (int i = 8; i > 0; --i) {
        sum = sum * x + T(1) / T(i);
    }
    return sum;
}

// Not inlined, so it is called with the calling convention of the device.
__device__ __noinline__ float slow(float x, int depth) {
    return depth == 0 ? x : slow(x * 0.5f + 1.0f, depth - 1);
}

struct Shape {
    __device__ virtual float area(float side) const = 0;
};
struct Square : Shape {
    __device__ float area(float side) const override { return side * side; }
};
struct Disc : Shape {
    __device__ float area(float side) const override { return 3.14159265f * side * side; }
};

template <typename Function>
__device__ void for_each(int n, Function function) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        function(i);
    }
}

} // namespace

// A kernel for each function, because libdevice has changed some of them between CUDA 12 and 13.
#define OF_ONE(function, T)                                                                                            \
    extern "C" __global__ void one_##function(const T* in, T* out, int n) {                                            \
        for_each(n, [=](int i) { out[i] = function(in[i]); });                                                         \
    }

OF_ONE(sinf, float)
OF_ONE(cosf, float)
OF_ONE(expf, float)
OF_ONE(log1pf, float)
OF_ONE(erff, float)
OF_ONE(tanhf, float)
OF_ONE(exp, double)
OF_ONE(log, double)
OF_ONE(rsqrt, double)
OF_ONE(erf, double)
OF_ONE(sin, double)

extern "C" __global__ void powers(const float* in, float* out, int n) {
    for_each(n, [=](int i) { out[i] = powf(in[i], 1.7f) + exp2f(in[i]) + log2f(in[i]) + hypotf(in[i], 3.0f); });
}

extern "C" __global__ void fast_functions_of_float(const float* in, float* out, int n) {
    for_each(n, [=](int i) {
        const float x = in[i];
        out[i] = __sinf(x) + __expf(x) * __logf(x) + rsqrtf(x) + __fdividef(x, 3.0f) + __frcp_rn(x) + fmaf(x, x, x);
    });
}

extern "C" __global__ void divisions(const float* a, const float* b, float* out, int n) {
    for_each(n, [=](int i) { out[i] = a[i] / b[i] + sqrtf(b[i]) + __fdiv_rz(a[i], b[i]) + __fsqrt_ru(a[i]); });
}

extern "C" __global__ void integers(const int* a, const long long* b, long long* out, int n) {
    for_each(n, [=](int i) {
        const int x = a[i];
        const long long y = b[i];
        long long sum = x / 7 + x % 11 + y / (x | 1) + y % 1000003;
        sum += __popc(x) + __clzll(y) + __ffs(x) + __mulhi(x, 12345) + __umul64hi(y, 0x9e3779b97f4a7c15ull);
        sum += __funnelshift_l(x, static_cast<unsigned>(y), x & 31) + __byte_perm(x, x >> 3, 0x3216) + __brev(x);
        sum += __dp4a(x, x ^ 0x01020304, 5) + min(x, 17) + abs(x) + __sad(x, 3, 4u);
        out[i] = sum;
    });
}

extern "C" __global__ void branches(const int* kind, const float* in, float* out, int n) {
    for_each(n, [=](int i) {
        float x = in[i];
        switch (kind[i]) {
        case 0: x = -x; break;
        case 1: x = x * x; break;
        case 2: x = 1.0f / x; break;
        case 3: x = x > 0.0f ? x : 0.0f; break;
        case 4: x = fminf(fmaxf(x, -1.0f), 1.0f); break;
        case 7: x = truncf(x); break;
        default: return;
        }
        while (x > 2.0f && x < 1e6f) {
            x = x * 0.75f - 0.1f;
        }
        out[i] = x;
    });
}

extern "C" __global__ void recursion(const float* in, float* out, int n) {
    for_each(n, [=](int i) { out[i] = slow(in[i], i & 15); });
}

extern "C" __global__ void virtual_calls(const float* in, float* out, int n) {
    const Square square;
    const Disc disc;
    for_each(n, [&](int i) {
        const Shape* shape = i & 1 ? static_cast<const Shape*>(&square) : &disc;
        out[i] = shape->area(in[i]);
    });
}

template <typename T, int kTimes>
__global__ void __launch_bounds__(256, 4) polynomials(const T* in, T* out, int n) {
    for_each(n, [=](int i) {
        T x = in[i];
#pragma unroll
        for (int time = 0; time < kTimes; ++time) {
            x = polynomial(x);
        }
        out[i] = x;
    });
}

template __global__ void polynomials<float, 1>(const float*, float*, int);
template __global__ void polynomials<float, 4>(const float*, float*, int);
template __global__ void polynomials<double, 2>(const double*, double*, int);
template __global__ void polynomials<long long, 2>(const long long*, long long*, int);
