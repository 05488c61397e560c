"""Messages to the Rust program: one JSON object per line on standard output.

Owns: the format of these lines. Never: decides what to report.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn


def tell(text: str) -> None:
    """A sentence for a person."""
    print(json.dumps({"said": text}), flush=True)


def hand_over(line: dict[str, Any], cached: bool) -> None:
    """The line of a phase; `cached` if an earlier run has measured it."""
    print(json.dumps({"line": line, "cached": cached}), flush=True)


def refuse(what: str, advice: str) -> NoReturn:
    """Why nothing can be measured, and what to do about it."""
    print(json.dumps({"refused": what, "help": advice}), flush=True)
    sys.exit(2)
