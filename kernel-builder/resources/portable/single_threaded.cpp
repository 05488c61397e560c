// glibc 2.32 has this variable, and libstdc++'s shared_ptr counts without atomics where it is not zero. Zero is right
// on every system: always atomic.
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
