"""Tensors as bytes: files, guarded buffers, dtypes.

Owns: where a tensor lies in memory and what surrounds it. Never: looks at values.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
from collections.abc import Sequence
from typing import Any

import torch

from protocol import TORCH_NAMES, Dtype, TensorSpec
from protocol_verify import CandidateCase

# Bound before any kernel is imported.
memset = ctypes.memset

DTYPES: dict[Dtype, torch.dtype] = {name: getattr(torch, attribute) for name, attribute in TORCH_NAMES.items()}

# Integers of the same size, to move values without looking at them.
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def payload_bytes(tensor: TensorSpec) -> int:
    """Bytes of a dense tensor as the job describes it; none where `None` is passed for it."""
    return 0 if tensor.omitted else math.prod(tensor.shape) * DTYPES[tensor.dtype].itemsize


def returned_outputs(case: CandidateCase) -> list[TensorSpec]:
    """The outputs that are returned: those that overwrite no input."""
    return [output for output in case.outputs if output.inplace is None]


def region_bytes(tensor: TensorSpec, strides: list[int] | None) -> int:
    """Bytes from the first element to the end of the last, with whatever lies between them."""
    if strides is None or 0 in tensor.shape:
        return payload_bytes(tensor)
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, strides))
    return (last + 1) * DTYPES[tensor.dtype].itemsize


def bytes_of(tensor: torch.Tensor) -> Any:
    """The bytes of a tensor, dense; nothing for one without elements."""
    dense = tensor.detach().cpu().contiguous()
    count = dense.numel() * dense.element_size()
    if not count:
        return b""
    view: Any = (ctypes.c_char * count).from_address(dense.data_ptr())
    # The bytes live as long as the tensor.
    view.tensor = dense
    return view


def write_tensors(path: str, tensors: list[torch.Tensor]) -> None:
    """Write tensors one after the other; the file appears whole or not at all."""
    unfinished = path + ".part"
    with open(unfinished, "wb") as file:
        for tensor in tensors:
            file.write(bytes_of(tensor))
    os.replace(unfinished, path)


def digest_of(tensors: list[torch.Tensor]) -> str:
    """SHA-256 of what `write_tensors` writes, in hexadecimal; of the values in memory, whatever becomes of a file."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors lie in one storage, or in storages that overlap."""
    if one.device != other.device or not one.numel() or not other.numel():
        return False
    first, second = one.untyped_storage(), other.untyped_storage()
    return (
        first.data_ptr() < second.data_ptr() + second.nbytes() and second.data_ptr() < first.data_ptr() + first.nbytes()
    )


def read_payloads(path: str, tensors: list[TensorSpec]) -> list[torch.Tensor]:
    """Read the payloads of tensors that lie one after the other, as flat uint8 tensors on the host."""
    payloads: list[torch.Tensor] = []
    with open(path, "rb") as file:
        for tensor in tensors:
            count = payload_bytes(tensor)
            raw = bytearray(file.read(count))
            if len(raw) != count:
                raise ValueError(f"{path} ends early")
            payloads.append(torch.frombuffer(raw, dtype=torch.uint8) if count else torch.empty(0, dtype=torch.uint8))
    return payloads


def as_tensor(payload: torch.Tensor, tensor: TensorSpec) -> torch.Tensor:
    """A flat uint8 payload seen as the tensor it holds."""
    return payload.view(DTYPES[tensor.dtype]).reshape(tensor.shape)


def fill_bytes(buffer: torch.Tensor, pattern: int) -> None:
    """Fill a dense uint8 tensor with one byte; on the host not by PyTorch, whose loop takes twenty times as long."""
    if buffer.device.type == "cpu":
        memset(buffer.data_ptr(), pattern, buffer.numel())
    else:
        buffer.fill_(pattern)


def dumped_inputs(
    case: CandidateCase, inputs: Sequence[Guarded | None], payloads: list[torch.Tensor], pattern: int
) -> list[torch.Tensor]:
    """The buffers of the inputs that a dump must have: none if every input is as it was passed and no output lies there."""
    if all(output.inplace is None for output in case.outputs):
        passed = [(buffer, payload) for buffer, payload in zip(inputs, payloads) if buffer is not None]
        if all(buffer.is_intact(pattern, payload) for buffer, payload in passed):
            return []
    return [buffer.buffer for buffer in inputs if buffer is not None]


class Guarded:
    """One tensor inside a larger buffer, with `guard` bytes or more on both sides.

    `shift` elements move the tensor off the alignment that an allocation has. With `strides`, in elements, the tensor is
    not dense, and what lies between its elements is guarded, too.
    """

    def __init__(
        self, tensor: TensorSpec, device: str, guard: int, shift: int, strides: list[int] | None = None
    ) -> None:
        dtype = DTYPES[tensor.dtype]
        self.front = guard + shift * dtype.itemsize
        count = region_bytes(tensor, strides)
        self.buffer = self.allocate(self.front + count + guard, device)
        region = self.buffer[self.front : self.front + count]
        if strides is None or 0 in tensor.shape:
            self.view = as_tensor(region, tensor)
        else:
            self.view = region.view(dtype).as_strided(tensor.shape, strides)
        self.tensor = tensor
        self.is_dense = strides is None

    def allocate(self, size: int, device: str) -> torch.Tensor:
        """The bytes of the buffer."""
        return torch.empty(size, dtype=torch.uint8, device=device)

    def reset(self, pattern: int, payload: torch.Tensor | None) -> None:
        """Fill everything with one byte, then put the payload in, if there is one."""
        fill_bytes(self.buffer, pattern)
        if payload is not None:
            bits = BITS[self.view.element_size()]
            self.view.view(bits).copy_(as_tensor(payload, self.tensor).view(bits))

    def is_intact(self, pattern: int, payload: torch.Tensor) -> bool:
        """Whether a dense tensor and its guards are as `reset` left them."""
        end = self.front + payload.numel()
        guards = (self.buffer[: self.front], self.buffer[end:])
        if not self.is_dense or not torch.equal(self.buffer[self.front : end], payload.to(self.buffer.device)):
            return False
        return all(bool((guard == pattern).all()) for guard in guards)

    def overlaps(self, tensor: torch.Tensor) -> bool:
        """Whether another tensor's storage lies in this buffer."""
        first = self.buffer.data_ptr()
        other = tensor.untyped_storage()
        return first < other.data_ptr() + other.nbytes() and other.data_ptr() < first + self.buffer.numel()
