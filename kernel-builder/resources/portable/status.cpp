// Until glibc 2.33 these were inline calls of functions that take the version of the structure. No header is included:
// it would declare them with other types. 64-bit systems have one structure, so the 64-bit names mean the same.
#define KERNELWRIGHT_HIDDEN extern "C" __attribute__((visibility("hidden")))

extern "C" int __xstat(int version, const char* path, void* status);
extern "C" int __lxstat(int version, const char* path, void* status);
extern "C" int __fxstat(int version, int file, void* status);
extern "C" int __fxstatat(int version, int folder, const char* path, void* status, int flags);

namespace {
#if defined(__x86_64__)
constexpr int kVersion = 1;
#else
constexpr int kVersion = 0;
#endif
} // namespace

KERNELWRIGHT_HIDDEN int stat(const char* path, void* status) { return __xstat(kVersion, path, status); }
KERNELWRIGHT_HIDDEN int stat64(const char* path, void* status) { return __xstat(kVersion, path, status); }
KERNELWRIGHT_HIDDEN int lstat(const char* path, void* status) { return __lxstat(kVersion, path, status); }
KERNELWRIGHT_HIDDEN int lstat64(const char* path, void* status) { return __lxstat(kVersion, path, status); }
KERNELWRIGHT_HIDDEN int fstat(int file, void* status) { return __fxstat(kVersion, file, status); }
KERNELWRIGHT_HIDDEN int fstat64(int file, void* status) { return __fxstat(kVersion, file, status); }
KERNELWRIGHT_HIDDEN int fstatat(int folder, const char* path, void* status, int flags) {
    return __fxstatat(kVersion, folder, path, status, flags);
}
KERNELWRIGHT_HIDDEN int fstatat64(int folder, const char* path, void* status, int flags) {
    return __fxstatat(kVersion, folder, path, status, flags);
}
