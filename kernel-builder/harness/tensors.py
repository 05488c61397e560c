"""Tensors as bytes: files, guarded buffers, dtypes.

Owns: where a tensor lies in memory and what surrounds it. Never: looks at values.
"""

import ctypes
import math
import os

import torch

DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}


def payload_bytes(tensor: dict) -> int:
    """Bytes of a dense tensor as the job describes it."""
    return math.prod(tensor["shape"]) * DTYPES[tensor["dtype"]].itemsize


def append_bytes(file, tensor: torch.Tensor) -> None:
    """Append the bytes of a dense tensor to an open binary file."""
    dense = tensor.detach().cpu().contiguous()
    count = dense.numel() * dense.element_size()
    if count:
        file.write((ctypes.c_char * count).from_address(dense.data_ptr()))


def write_tensors(path: str, tensors: list[torch.Tensor]) -> None:
    """Write tensors one after the other; the file appears whole or not at all."""
    unfinished = path + ".part"
    with open(unfinished, "wb") as file:
        for tensor in tensors:
            append_bytes(file, tensor)
    os.replace(unfinished, path)


def read_payloads(path: str, tensors: list[dict]) -> list[torch.Tensor]:
    """Read the payloads of tensors that lie one after the other, as flat uint8 tensors on the host."""
    payloads = []
    with open(path, "rb") as file:
        for tensor in tensors:
            count = payload_bytes(tensor)
            raw = bytearray(file.read(count))
            if len(raw) != count:
                raise ValueError(f"{path} ends early")
            payloads.append(torch.frombuffer(raw, dtype=torch.uint8) if count else torch.empty(0, dtype=torch.uint8))
    return payloads


def as_tensor(payload: torch.Tensor, tensor: dict) -> torch.Tensor:
    """A flat uint8 payload seen as the tensor it holds."""
    return payload.view(DTYPES[tensor["dtype"]]).reshape(tensor["shape"])


class Guarded:
    """One tensor inside a larger buffer, with `guard` bytes or more on both sides.

    `shift` elements move the tensor off the alignment that an allocation has.
    """

    def __init__(self, tensor: dict, device: str, guard: int, shift: int) -> None:
        self.front = guard + shift * DTYPES[tensor["dtype"]].itemsize
        self.count = payload_bytes(tensor)
        self.buffer = torch.empty(self.front + self.count + guard, dtype=torch.uint8, device=device)
        self.payload = self.buffer[self.front : self.front + self.count]
        self.view = as_tensor(self.payload, tensor)

    def reset(self, pattern: int, payload: torch.Tensor | None) -> None:
        """Fill everything with one byte, then put the payload in, if there is one."""
        self.buffer.fill_(pattern)
        if payload is not None:
            self.payload.copy_(payload)

    def overlaps(self, tensor: torch.Tensor) -> bool:
        """Whether another tensor's storage lies in this buffer."""
        first = self.buffer.data_ptr()
        other = tensor.untyped_storage()
        return first < other.data_ptr() + other.nbytes() and other.data_ptr() < first + self.buffer.numel()
