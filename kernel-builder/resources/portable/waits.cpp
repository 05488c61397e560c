// glibc 2.30 waits on a clock of choice, which libstdc++'s headers use for std::chrono::steady_clock. An older library
// waits on the wall clock, so the deadline is moved there. When somebody sets the wall clock meanwhile, a wait ends early
// or late; libstdc++ asks its own clock afterwards. No header is included: it may declare these with other types.
#define KERNELWRIGHT_HIDDEN extern "C" __attribute__((visibility("hidden")))

struct Moment {
    long seconds;
    long nanoseconds;
};

extern "C" int clock_gettime(int clock, Moment* now);
extern "C" int pthread_cond_timedwait(void* condition, void* mutex, const Moment* until);
extern "C" int pthread_mutex_timedlock(void* mutex, const Moment* until);
extern "C" int pthread_rwlock_timedrdlock(void* lock, const Moment* until);
extern "C" int pthread_rwlock_timedwrlock(void* lock, const Moment* until);
extern "C" int sem_timedwait(void* semaphore, const Moment* until);

namespace {

constexpr int kWallClock = 0;
constexpr long kSecond = 1000000000;

Moment on_the_wall(int clock, const Moment* until) {
    if (clock == kWallClock) {
        return *until;
    }
    Moment there, wall;
    clock_gettime(clock, &there);
    clock_gettime(kWallClock, &wall);
    Moment moved = {until->seconds - there.seconds + wall.seconds,
                    until->nanoseconds - there.nanoseconds + wall.nanoseconds};
    if (moved.nanoseconds < 0) {
        moved.nanoseconds += kSecond;
        moved.seconds -= 1;
    } else if (moved.nanoseconds >= kSecond) {
        moved.nanoseconds -= kSecond;
        moved.seconds += 1;
    }
    return moved;
}

} // namespace

KERNELWRIGHT_HIDDEN int pthread_cond_clockwait(void* condition, void* mutex, int clock, const Moment* until) {
    const Moment moved = on_the_wall(clock, until);
    return pthread_cond_timedwait(condition, mutex, &moved);
}
KERNELWRIGHT_HIDDEN int pthread_mutex_clocklock(void* mutex, int clock, const Moment* until) {
    const Moment moved = on_the_wall(clock, until);
    return pthread_mutex_timedlock(mutex, &moved);
}
KERNELWRIGHT_HIDDEN int pthread_rwlock_clockrdlock(void* lock, int clock, const Moment* until) {
    const Moment moved = on_the_wall(clock, until);
    return pthread_rwlock_timedrdlock(lock, &moved);
}
KERNELWRIGHT_HIDDEN int pthread_rwlock_clockwrlock(void* lock, int clock, const Moment* until) {
    const Moment moved = on_the_wall(clock, until);
    return pthread_rwlock_timedwrlock(lock, &moved);
}
KERNELWRIGHT_HIDDEN int sem_clockwait(void* semaphore, int clock, const Moment* until) {
    const Moment moved = on_the_wall(clock, until);
    return sem_timedwait(semaphore, &moved);
}
