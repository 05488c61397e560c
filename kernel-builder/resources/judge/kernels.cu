// The judge's own kernels. They run in a process that no candidate's kernel can reach, on memory that is lent to it.
//
// Owns: comparing what a candidate left with what it should have left. Never: runs beside a candidate in one context.
// What is in bound.cuh comes before this text.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace {

// What is known about one tensor after all of its elements were looked at; begins as zeros.
struct Verdict {
    unsigned long long wrong;      // elements beyond the bound
    unsigned long long unwritten;  // those of them that still hold the poison
    unsigned long long first;      // the complement of the first wrong one's place, so that zero means none
    unsigned long long worst;      // the largest error as a share of the bound, the bits of a double
};

__device__ double decode(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ double decode(__half x) { return __half2float(x); }
__device__ double decode(float x) { return x; }
__device__ double decode(double x) { return x; }
__device__ double decode(__nv_fp8_e4m3 x) { return static_cast<float>(x); }
__device__ double decode(__nv_fp8_e5m2 x) { return static_cast<float>(x); }
__device__ double decode(signed char x) { return x; }
__device__ double decode(short x) { return x; }
__device__ double decode(int x) { return x; }
__device__ double decode(long long x) { return static_cast<double>(x); }
__device__ double decode(unsigned char x) { return x; }

// Elements that a thread has on their way at a time.
constexpr int kBatch = 4;

// What one thread found.
struct Findings {
    double worst = 0.0;
    unsigned long long wrong = 0, unwritten = 0, first = 0;

    // Whether the element of this place is within its bound.
    __device__ bool right(const Bound& bound, double value, double exact, double terms) {
        if (!admits(bound, value, exact, terms)) {
            return false;
        }
        const double error = fabs(value - exact), most = allowed(bound, exact, terms);
        // A share is larger than the one before, and not by a division for every element.
        if (isfinite(error) && error > worst * most && error <= most) {
            worst = error / most;
        }
        return true;
    }
    __device__ void wrong_at(long long place, bool is_unwritten) {
        ++wrong;
        unwritten += is_unwritten;
        const unsigned long long complement = ~static_cast<unsigned long long>(place);
        first = complement > first ? complement : first;
    }
};

template <typename T>
__device__ bool is_poison(const T* element, int poison) {
    const unsigned char* bytes = reinterpret_cast<const unsigned char*>(element);
    bool all = true;
    for (int i = 0; i < static_cast<int>(sizeof(T)); ++i) {
        all &= bytes[i] == poison;
    }
    return all;
}

}  // namespace

namespace judge {

// Compares every element. `terms` has one number a row, the size of its terms, which is neither infinite nor NaN.
template <typename T>
__global__ void compare(const T* computed, const double* exact, const double* terms, long long count,
                        long long row_length, int poison, double rounding, double accumulation,
                        double unit, double smallest, double largest, double overflow, int has_infinity,
                        Verdict* verdict) {
    const Bound bound = {rounding, accumulation, unit, smallest, largest, overflow, has_infinity};
    Findings found;
    // Half as many digits make the division many times as fast.
    const bool is_short = count < (1ll << 31) && row_length < (1ll << 31);
    const unsigned short_length = static_cast<unsigned>(row_length);
    auto row_of = [&](long long i) {
        return is_short ? static_cast<long long>(static_cast<unsigned>(i) / short_length) : i / row_length;
    };
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    for (; i + (kBatch - 1) * step < count; i += kBatch * step) {
        T values[kBatch];
        double exacts[kBatch], sizes[kBatch];
        for (int j = 0; j < kBatch; ++j) {
            values[j] = computed[i + j * step];
            exacts[j] = exact[i + j * step];
            sizes[j] = terms[row_of(i + j * step)];
        }
        for (int j = 0; j < kBatch; ++j) {
            if (!found.right(bound, decode(values[j]), exacts[j], sizes[j])) {
                found.wrong_at(i + j * step, is_poison(computed + i + j * step, poison));
            }
        }
    }
    for (; i < count; i += step) {
        if (!found.right(bound, decode(computed[i]), exact[i], terms[row_of(i)])) {
            found.wrong_at(i, is_poison(computed + i, poison));
        }
    }
    if (found.wrong > 0) {
        atomicAdd(&verdict->wrong, found.wrong);
        atomicAdd(&verdict->unwritten, found.unwritten);
        atomicMax(&verdict->first, found.first);
    }
    double worst = found.worst;
    // Bits of numbers that are not negative are ordered like the numbers. One update a warp is enough.
    for (int offset = 16; offset > 0; offset /= 2) {
        worst = fmax(worst, __shfl_xor_sync(0xffffffffu, worst, offset));
    }
    if (threadIdx.x % 32 == 0 && worst > 0.0) {
        atomicMax(&verdict->worst, static_cast<unsigned long long>(__double_as_longlong(worst)));
    }
}

// Whether two ranges hold the same bytes; both begin at multiples of 16.
__global__ void same(const unsigned char* one, const unsigned char* other, long long bytes, Verdict* verdict) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    const long long start = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    const uint4* a = reinterpret_cast<const uint4*>(one);
    const uint4* b = reinterpret_cast<const uint4*>(other);
    unsigned long long wrong = 0, first = 0;
    auto note = [&](long long byte) {
        ++wrong;
        const unsigned long long complement = ~static_cast<unsigned long long>(byte);
        first = complement > first ? complement : first;
    };
    for (long long i = start; i < bytes / 16; i += step) {
        const uint4 x = a[i], y = b[i];
        if (x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w) {
            note(i * 16);
        }
    }
    for (long long i = bytes / 16 * 16 + start; i < bytes; i += step) {
        if (one[i] != other[i]) {
            note(i);
        }
    }
    if (wrong > 0) {
        atomicAdd(&verdict->wrong, wrong);
        atomicMax(&verdict->first, first);
    }
}

// Whether a range holds nothing but one byte.
__global__ void only(const unsigned char* range, long long bytes, int byte, Verdict* verdict) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    unsigned long long wrong = 0, first = 0;
    for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < bytes; i += step) {
        if (range[i] != byte) {
            ++wrong;
            const unsigned long long complement = ~static_cast<unsigned long long>(i);
            first = complement > first ? complement : first;
        }
    }
    if (wrong > 0) {
        atomicAdd(&verdict->wrong, wrong);
        atomicMax(&verdict->first, first);
    }
}

// Reads a range, so that the cache holds it and nothing that must be written back.
__global__ void touch(const uint4* range, long long units, unsigned* sink) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
    unsigned sum = 0;
    for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < units; i += step) {
        const uint4 value = range[i];
        sum += value.x ^ value.y ^ value.z ^ value.w;
    }
    // Never true of what is filled with one byte, and the compiler does not know.
    if (sum == 0x2545f491u) {
        *sink = sum;
    }
}

}  // namespace judge
