// The driver's header declares functions of the host, which NVRTC refuses: this is what device code takes from it.
#pragma once
typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
// What `[launch.tensor-map]` of op.toml passes, as in the header of CUDA.
typedef struct alignas(64) CUtensorMap_st {
  cuuint64_t opaque[16];
} CUtensorMap;
