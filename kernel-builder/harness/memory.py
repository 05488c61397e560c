"""What the C library does with memory that is freed.

Owns: its thresholds. Never: allocates.
"""

import ctypes

# Of malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
# The largest threshold that glibc takes.
LARGEST_THRESHOLD = 32 << 20


def keep_freed_memory() -> None:
    """Has the C library keep what is freed, in every process of the harness alike.

    Otherwise it gives large blocks back to the system at each call or keeps them, depending on what lies behind them in
    the heap by chance, and a call takes hundreds of page faults or none: up to three times the time, seen on tensors of 1
    MiB. One arena, since those of further threads give large blocks back whatever the thresholds are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(M_ARENA_MAX, 1)
    mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
