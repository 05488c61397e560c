// A CUDA runtime that starts nothing: 200,000 bytes of shared memory for a block, functions with 100 bytes of static shared
// memory and at most 512 threads. Like the real one, it keeps the last error until somebody asks for it.
#pragma once

#include <cstddef>
#include <cstring>

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9, cudaErrorInvalidDeviceFunction = 98 };
using cudaStream_t = void*;
enum { cudaDevAttrMaxSharedMemoryPerBlockOptin };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
enum { cudaLaunchAttributeClusterDimension = 1, cudaLaunchAttributeCooperative };
enum { cudaMemcpyDeviceToDevice };
struct cudaFuncAttributes { size_t sharedSizeBytes; int maxThreadsPerBlock; int maxDynamicSharedSizeBytes; };
struct dim3 { unsigned x, y, z; dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };
struct cudaLaunchAttribute { int id; struct { struct { unsigned x, y, z; } clusterDim; int cooperative; } val; };
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute* attrs; unsigned numAttrs; };

inline cudaError_t last = cudaSuccess;
inline int allowed = 48 * 1024 - 100;
inline int launches = 0;
inline cudaError_t say(cudaError_t error) { if (error != cudaSuccess) { last = error; } return error; }
inline cudaError_t cudaGetLastError() { const cudaError_t error = last; last = cudaSuccess; return error; }
inline const char* cudaGetErrorString(cudaError_t error) { return error == cudaErrorInvalidDeviceFunction ? "invalid device function" : "invalid argument"; }
inline cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, int, int) { *value = 200000; return cudaSuccess; }
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void*) { *found = {100, 512, allowed}; return cudaSuccess; }
inline cudaError_t cudaFuncSetAttribute(const void*, int, int value) { if (value > 200000 - 100) { return say(cudaErrorInvalidValue); } allowed = value; return cudaSuccess; }
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
    const unsigned threads = config->blockDim.x * config->blockDim.y * config->blockDim.z;
    if (threads > 512 || config->dynamicSmemBytes > static_cast<size_t>(allowed)) { return say(cudaErrorInvalidValue); }
    ++launches;
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, cudaStream_t) { std::memcpy(to, from, bytes); return cudaSuccess; }
