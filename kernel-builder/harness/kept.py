"""Memory that a package keeps between calls: which regions there are, which depend on inputs, and how to scramble them.

Owns: the comparison of regions before and after calls. Never: makes a call, or says what a finding means.

Seen are tensors that Python holds and, on a GPU, the live blocks of PyTorch's allocator. Static buffers of C++ on the
processor, and device memory that a package asks the driver for, are not seen.
"""

import gc
import os
import random
from typing import Any

import torch

# Regions that are larger than this in all are counted and not compared.
LARGEST_COMPARED = 256 << 20
# From the system, and not from what a package can seed.
CHANCE = random.SystemRandom()


class Block:
    """A region of a GPU's memory, in the form that PyTorch makes a tensor of without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 2}


def overlap(address: int, size: int, ranges: list[tuple[int, int]]) -> bool:
    """Whether a region shares a byte with one of some ranges (address, bytes)."""
    return any(address < other + length and other < address + size for other, length in ranges)


def ranges_of(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
    """Address and bytes of the storage of each tensor that has one."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return [(one.data_ptr(), one.nbytes()) for one in storages if one.nbytes()]


def held_by_python() -> list[torch.Tensor]:
    """One tensor for each storage in the processor's memory that Python holds, as bytes."""
    found: dict[int, torch.Tensor] = {}
    for one in gc.get_objects():
        if type(one) is not torch.Tensor or one.device.type != "cpu" or one.layout != torch.strided:
            continue
        storage = one.untyped_storage()
        if storage.nbytes() and storage.data_ptr():
            found[storage.data_ptr()] = torch.empty(0, dtype=torch.uint8).set_(storage)
    return list(found.values())


def live_blocks(segments: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Address and bytes of the blocks that are in use, from a snapshot of the allocator."""
    found: list[tuple[int, int]] = []
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                found.append((address, block["size"]))
            address += block["size"]
    return found


def regions(device: str, ours: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the kept memory as tensors of bytes, by address; the storages of `ours` are left out."""
    ranges = ranges_of(ours)
    found = held_by_python()
    if device == "cuda":
        blocks = live_blocks(torch.cuda.memory_snapshot())
        found += [
            torch.as_tensor(Block(address, size), device="cuda")
            for address, size in blocks
            if not overlap(address, size, ranges)
        ]
    kept = {one.data_ptr(): one for one in found}
    return {address: one for address, one in kept.items() if not overlap(address, one.numel(), ranges)}


def contents_of(kept: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """A copy of every region in the processor's memory; nothing where all are too large to be compared."""
    if sum(one.numel() for one in kept.values()) > LARGEST_COMPARED:
        return {}
    return {address: one.cpu().clone() for address, one in kept.items()}


def varying(
    first: dict[int, torch.Tensor], same: dict[int, torch.Tensor], other: dict[int, torch.Tensor]
) -> dict[int, torch.Tensor]:
    """The bytes that depend on inputs, as a mask for each region that has some.

    `first` and `same` were copied after calls with the same inputs, `other` after a call with others. A byte depends on
    inputs if it is alike in the first two, and not in the third: a counter of calls does not. A region that `first` does
    not have came with new inputs, so all of it does.
    """
    masks: dict[int, torch.Tensor] = {}
    for address, after in other.items():
        before, again = first.get(address), same.get(address)
        if before is None or before.shape != after.shape:
            mask = torch.ones(after.shape, dtype=torch.bool)
        elif again is None or again.shape != after.shape:
            continue
        else:
            mask = (before == again) & (before != after)
        if bool(mask.any()):
            masks[address] = mask
    return masks


def scramble(kept: dict[int, torch.Tensor], masks: dict[int, torch.Tensor], everything: bool) -> None:
    """Put random bytes where masks say so: into all regions, or into about half of them.

    Half, since a package that keeps what it compares beside what it returns would see that all has changed.
    """
    for address, mask in masks.items():
        region = kept.get(address)
        if region is None or region.shape != mask.shape or not (everything or CHANCE.random() < 0.5):
            continue
        noise = torch.frombuffer(bytearray(os.urandom(mask.numel())), dtype=torch.uint8)
        region.copy_(torch.where(mask, noise, region.cpu()))
