import json
from pathlib import Path

from .._ops import ops

_HERE = Path(__file__).parent
_NAMES = json.loads((_HERE / "names.json").read_text())
_BYTES = (_HERE / "raw" / "bytes.bin").read_bytes()


def by_name(name):
    return _NAMES[name]


def by_index(index):
    return _BYTES[ops.doubled(index)]
