import json
from pathlib import Path

_TABLE = json.loads((Path(__file__).parent / "table.json").read_text())


def block_of(device):
    return _TABLE.get(device, _TABLE["default"])
