// What all rows need, asked for before all else.
// Owns: the request. Never: waits for it.

#pragma once

namespace fetch {

// Bytes that come from memory together.
constexpr int kLine = 128;

// Asks for kBytes into L2, each line once, by kThreads threads that call this. For one block: blocks that start together
// would all ask for the same lines, and each wait for all others.
template <int kThreads, int kBytes>
__device__ __forceinline__ void into_l2(const void* from) {
    for (int at = threadIdx.x * kLine; at < kBytes; at += kThreads * kLine) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + at));
    }
}

}  // namespace fetch
