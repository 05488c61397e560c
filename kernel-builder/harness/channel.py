"""The way back to the judge.

Owns: JSON lines with a nonce, on a descriptor of its own. Never: standard output, which a candidate may write to: from
the start it leads to standard error.
"""

import os
import platform
import time

import torch

import wire
from protocol_verify import Event


class Channel:
    """Lines to the judge; a line without the nonce of this run counts as forged."""

    def __init__(self, nonce: str, descriptor: int) -> None:
        self._nonce = nonce
        self._descriptor = descriptor

    @classmethod
    def take_over(cls, nonce: str) -> "Channel":
        """Keep the pipe behind standard output for the judge, and point standard output to standard error."""
        descriptor = os.dup(1)
        os.dup2(2, 1)
        return cls(nonce, descriptor)

    def send(self, event: Event) -> None:
        """Send one event."""
        rest = wire.line(self._nonce, event)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


def wait_for(path: str) -> str:
    """Wait until the judge has put a file at `path`; its text is the judge's answer."""
    pause = 0.001
    while True:
        try:
            with open(path, encoding="utf-8") as answer:
                return answer.read()
        except FileNotFoundError:
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)


def device_name(device: str) -> str:
    """The device that this process runs on, for the record."""
    if device == "cuda" and torch.cuda.is_available():
        return torch.cuda.get_device_name(0)
    return device


def python_version() -> str:
    """The version of this Python, for the record."""
    return platform.python_version()
