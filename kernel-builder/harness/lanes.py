"""How many sets of a schedule are made at a time.

Owns: threads and memory of what the oracle does side by side. Never: knows what is made.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

from protocol_verify import OracleCase, OracleJob
from tensors import DTYPES, payload_bytes

T = TypeVar("T")

# Sets of cases up to this many bytes are made side by side, each by one thread: most of such work (random numbers, digests,
# files) is serial. Of larger ones so many as have this many threads each, and fit into memory with all their float64.
SMALL_CASE = 16 << 20
THREADS_OF_LARGE = 2
# Elements of an input or a result for each thread of a set that is made alone. Some operators, such as `max` along an axis, use
# all threads for any length, and then wait for the slowest one: on a machine that others use, for milliseconds.
ELEMENTS_PER_THREAD = 1 << 18
# Bytes that an element of an input or a result takes meanwhile: float64, a few times.
BYTES_MEANWHILE = 48
MOST_MEMORY = 12 << 30


@cache
def room() -> int:
    """Bytes for sets that are made side by side; the same all along, since sums depend on how many threads make them."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(MOST_MEMORY, free // 4)


def lanes(case: OracleCase, threads: int) -> int:
    """How many sets of a case are made side by side."""
    tensors = [*case.inputs, *case.outputs]
    if sum(map(payload_bytes, tensors)) <= SMALL_CASE:
        return threads
    return max(1, min(threads // THREADS_OF_LARGE, room() // (BYTES_MEANWHILE * elements_of(case))))


def elements_of(case: OracleCase) -> int:
    """Elements of all inputs and results of a set."""
    return sum(payload_bytes(tensor) // DTYPES[tensor.dtype].itemsize for tensor in [*case.inputs, *case.outputs])


def threads_alone(case: OracleCase, threads: int) -> int:
    """How many of `threads` make a set that is made alone."""
    return max(1, min(threads, elements_of(case) // ELEMENTS_PER_THREAD))


def side_by_side(
    job: OracleJob, work: Callable[[OracleCase, int], T], alone: bool = False
) -> Iterator[tuple[OracleCase, int, T]]:
    """Do `work(case, number)` for every set of every case, and give each with its result, in the order of the schedule.

    With `alone`, one at a time.
    """
    threads = job.threads
    widths = {id(case): 1 if alone else lanes(case, threads) for case in job.cases}
    sets = [(case, number, widths[id(case)]) for case in job.cases for number in range(len(case.sets))]

    def with_threads(count: int, case: OracleCase, number: int) -> T:
        torch.set_num_threads(count)
        return work(case, number)

    futures: dict[int, Future[T]] = {}
    for width in sorted({width for _, _, width in sets if width > 1}, reverse=True):
        with ThreadPoolExecutor(width) as pool:
            for place, (case, number, own) in enumerate(sets):
                if own == width:
                    futures[place] = pool.submit(with_threads, max(1, threads // width), case, number)
    for place, (case, number, _) in enumerate(sets):
        if place in futures:
            yield case, number, futures[place].result()
        else:
            yield case, number, with_threads(threads_alone(case, threads), case, number)
    torch.set_num_threads(threads)
