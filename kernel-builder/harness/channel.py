"""The way back to the judge.

Owns: JSON lines with a nonce, on a descriptor of its own. Never: standard output, which a candidate may write to: from
the start it leads to standard error.
"""

import json
import os
import platform
import time

import torch


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

    def send(self, event: str, **fields: object) -> None:
        """Send one event."""
        line = json.dumps({"nonce": self._nonce, "event": event, **fields}) + "\n"
        rest = line.encode()
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


def environment(device: str) -> dict:
    """What this process runs on, for the record."""
    facts = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cuda_available": torch.cuda.is_available(),
        "device": device,
    }
    if device == "cuda" and facts["cuda_available"]:
        properties = torch.cuda.get_device_properties(0)
        facts["device"] = properties.name
        facts["capability"] = f"{properties.major}.{properties.minor}"
        facts["l2_bytes"] = properties.L2_cache_size
        facts["cuda"] = torch.version.cuda
    return facts
