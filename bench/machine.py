"""What the records say of the machine that they were made on, and what it has received; the other programs import it."""

import os
import platform
from pathlib import Path


def received_bytes() -> int:
    """Bytes received by every interface but the loopback, from the kernel's own counters."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    rows = (line.split(":", 1) for line in lines)
    return sum(int(counters.split()[0]) for name, counters in rows if name.strip() != "lo")


def described() -> dict:
    """The processor by its name, how many there are, and the system."""
    return {"processor": processor(), "processors": os.cpu_count(), "system": platform.platform()}


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
