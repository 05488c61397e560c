// The driver's header declares functions of the host, which NVRTC refuses: this is what device code takes from it.
#pragma once
typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
// What `[launch.tensor-map]` of op.toml passes, aligned as in the header of this CUDA.
#if __CUDACC_VER_MAJOR__ >= 13
typedef struct alignas(128) CUtensorMap_st {
#else
typedef struct alignas(64) CUtensorMap_st {
#endif
  cuuint64_t opaque[16];
} CUtensorMap;
