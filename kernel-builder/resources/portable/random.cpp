// glibc 2.36 has arc4random, which a newer libstdc++ uses for std::random_device; glibc 2.25 has getrandom.
extern "C" long getrandom(void* buffer, unsigned long length, unsigned flags);

extern "C" __attribute__((visibility("hidden"))) unsigned arc4random() {
    unsigned value = 0;
    // Four bytes are never cut short (getrandom(2)); a signal before the first byte, at system start, is a retry.
    while (getrandom(&value, sizeof value, 0) != sizeof value) {
    }
    return value;
}
