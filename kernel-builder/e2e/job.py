"""The job: which model and packages to measure, and how. The Rust program writes it as JSON.

Owns: its fields. Never: a default.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Job:
    """A model, packages, and how they are measured."""

    #: What a person calls the model.
    model: str
    #: The sizes of a public architecture, as a file of models/ has them.
    facts: dict[str, Any] | None
    #: Else a folder with a config.json, or a Python file with this function.
    path: str
    function: str | None
    #: Folders of built packages.
    packages: list[str]
    #: Takes the sizes of a small model.
    small: bool
    #: `bfloat16`, `float16` or `float32`.
    dtype: str
    #: `cpu` or `cuda`.
    device: str
    #: How often every contender has its turn.
    rounds: int
    #: Whether torch.compile is a contender.
    compile: bool
    #: Whether torch.compile with a search (max-autotune) is one.
    search: bool
    #: Only these phases, such as `prefill`; all if empty.
    phases: list[str]
    #: The file of the record.
    record: str
    #: Measures again what the record has.
    fresh: bool

    @staticmethod
    def read(text: str) -> Job:
        """A job from its JSON."""
        return Job(**json.loads(text))

    def dtype_of_torch(self) -> torch.dtype:
        """The dtype of the weights."""
        found = getattr(torch, self.dtype)
        assert isinstance(found, torch.dtype)
        return found


def digest(folder: Path) -> str:
    """The first digits of the SHA-256 of a package's files."""
    whole = hashlib.sha256()
    for file in sorted(one for one in folder.rglob("*") if one.is_file() and "__pycache__" not in one.parts):
        whole.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:16]
