// Owns: the instructions of capability 9.0a that a matrix product needs, one function each: barriers in shared memory,
// copies of tiles (TMA), what a cluster shares, and the descriptors and fences of wgmma.
// Never: what a kernel does with them, and in which order.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace gemm {

// What the host encodes of a matrix for the copy engine: a TensorMap of the driver's interface.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// Addresses of shared memory are 32-bit numbers throughout, as the instructions want them.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// ---------------------------------------------------------------------------------------------------------------------
// Barriers in shared memory. A phase ends when all arrivals have come and all expected bytes have been written.

__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine and to the other blocks of the cluster. A barrier of threads must
// follow. fence.proxy.async would wait for all memory of the GPU, and is not needed.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the same barrier of another block of the cluster. Not with .release.cluster, which waits for all memory of the
// GPU: the arrival only says that products have read a stage, and they were waited for.
__device__ __forceinline__ void barrier_arrive_at(unsigned barrier, unsigned rank) {
  asm volatile(
      "{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Arrives, and adds to the bytes that the phase waits for.
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ bool barrier_try(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Waits until the phase of this parity has ended. On a new barrier, the phase of parity 1 counts as ended.
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
  while (!barrier_try(barrier, parity)) {
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Copies of boxes of a matrix. `x` is the column and `y` the row of the first element. What lies outside the matrix is
// read as zero and not written; the bytes of a whole box are counted all the same.

__device__ __forceinline__ void map_prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void box_load(unsigned target, const TensorMap& map, int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %2, %3}], [%4];" ::"r"(
          target),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// The same for all blocks of the cluster whose bit is set: at the same address, counted at the same barrier of each.
__device__ __forceinline__ void
box_load_to(unsigned short blocks, unsigned target, const TensorMap& map, int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, { %2, %3}], [%4], %5;" ::"r"(target),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

__device__ __forceinline__ void box_store(const TensorMap& map, int x, int y, unsigned source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, { %1, %2}], [%3];" ::"l"(&map), "r"(x),
               "r"(y), "r"(source)
               : "memory");
}

__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until the sources of all but the `pending` last groups of stores of this thread have been read.
template <int pending>
__device__ __forceinline__ void stores_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// What this thread wrote to shared memory will be seen by the copy engine.
__device__ __forceinline__ void shared_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---------------------------------------------------------------------------------------------------------------------
// Clusters and groups of warps.

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// relaxed: no other block reads afterwards what this one wrote. A release waits for all memory of the GPU.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// The address by which this block reads what lies at `address` in another block's shared memory.
__device__ __forceinline__ unsigned cluster_address(unsigned address, unsigned rank) {
  unsigned remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

__device__ __forceinline__ float4 cluster_read(unsigned remote) {
  float4 value;
  asm volatile("ld.shared::cluster.v4.f32 { %0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(remote)
               : "memory");
  return value;
}

// Writes 16 bytes to another block's shared memory, which a barrier there counts.
__device__ __forceinline__ void
cluster_send(unsigned remote, unsigned remote_barrier, float x, float y, float z, float w) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], { %2, %3, %4, %5}, [%1];" ::"r"(remote),
      "r"(remote_barrier), "f"(x), "f"(y), "f"(z), "f"(w)
      : "memory");
}

__device__ __forceinline__ float4 shared_read(unsigned address) {
  float4 value;
  asm volatile("ld.shared.v4.f32 { %0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

// A barrier of `threads` threads of the block, by number; 0 is that of __syncthreads.
__device__ __forceinline__ void group_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

template <int registers>
__device__ __forceinline__ void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
__device__ __forceinline__ void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// ---------------------------------------------------------------------------------------------------------------------
// wgmma reads its operands by descriptor: where they begin, and how far apart the parts lie. All tiles here have rows of
// 128 bytes, whose units of 16 bytes are permuted with a period of 8 rows (1024 bytes): "128-byte swizzle", type 1 in
// the two highest bits. All fields count in 16 bytes.

constexpr unsigned long long swizzle_128 = 1ull << 62;

// How an operand lies in memory: its rows run along k, or rows of k run along it, as in a matrix that is multiplied by its
// transpose.
enum class Layout { along, across };

// along: groups of 8 rows of the tile follow each other. A step of 16 along k is 32 bytes on in the same row: the
// permutation takes its bits from the address, so it stays right as long as tiles begin at multiples of 1024.
// across: a row has 64 elements of one place of k. Groups of 8 places follow each other; the next 64 elements lie behind all
// 64 places of a stage.
template <Layout layout = Layout::along>
__device__ __forceinline__ unsigned long long descriptor(unsigned address) {
  constexpr unsigned long long groups = 1024 / 16, boxes = layout == Layout::along ? 1 : 64 * 128 / 16;
  return swizzle_128 | groups << 32 | boxes << 16 | (address & 0x3ffff) >> 4;
}

// Registers and shared memory written before are seen by the products issued next.
__device__ __forceinline__ void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int pending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps the compiler from reading sums before the wait above it.
template <int count>
__device__ __forceinline__ void sums_fence(float (&sums)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// ---------------------------------------------------------------------------------------------------------------------
// Two floats rounded into one register, and four 8 by 8 matrices from registers to shared memory: each thread names a
// row of one, those of eight threads after each other make one.

__device__ __forceinline__ unsigned pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ __forceinline__ unsigned pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ __forceinline__ void matrices_store(unsigned target, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], { %1, %2, %3, %4};" ::"r"(target), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

}  // namespace gemm
