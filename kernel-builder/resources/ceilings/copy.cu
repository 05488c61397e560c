// A copy by the multiprocessors: 16 bytes a thread at a time, four of them in flight.

namespace ceiling {

constexpr int THREADS = 256;
constexpr int HELD = 4;

// `units` of 16 bytes each, by blocks that have THREADS * HELD of them.
__global__ void __launch_bounds__(THREADS) copy(uint4* __restrict__ to, const uint4* __restrict__ from, long long units) {
    const long long first = blockIdx.x * static_cast<long long>(THREADS * HELD) + threadIdx.x;
    uint4 held[HELD];
#pragma unroll
    for (int place = 0; place < HELD; ++place) {
        const long long at = first + place * THREADS;
        if (at < units) {
            held[place] = __ldcs(from + at);
        }
    }
#pragma unroll
    for (int place = 0; place < HELD; ++place) {
        const long long at = first + place * THREADS;
        if (at < units) {
            __stcs(to + at, held[place]);
        }
    }
}

}  // namespace ceiling
