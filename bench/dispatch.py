"""What a dispatch table costs each call: the template's own `dispatch.py`, asked whether PyTorch serves a call.

    python bench/dispatch.py [--out FILE]

Needs torch, and no GPU: on one, the question is the same look-up with the number of the device in place of -1. One
JSON object on stdout. Times are nanoseconds a call, the least of many repeats of a loop, less an empty loop's.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
import timeit
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import machine  # noqa: E402

import torch  # noqa: E402

DISPATCH = Path(__file__).parents[1] / "templates/rms-norm-strided/torch-ext/{{ module }}/dispatch.py"
CALLS, REPEATS = 20_000, 30


def module(folder, table):
    """The template's module, beside a table or without one."""
    shutil.copy(DISPATCH, folder / "dispatch.py")
    if table is not None:
        (folder / "dispatch.json").write_text(json.dumps(table), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"dispatch_{id(table)}", folder / "dispatch.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def nanoseconds(call):
    def least(function):
        return min(timeit.repeat(function, number=CALLS, repeat=REPEATS)) / CALLS * 1e9

    return round(least(call) - least(lambda: None), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the record to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    x, weight = torch.ones(8, 64), torch.ones(64)
    ranges = [[1 << place, (2 << place) - 1, 1, 4] for place in range(7, 20)]
    record = {"bench": "dispatch", "torch": torch.__version__, **machine.described(), "ns": {}}
    cases = {"without a table": None, "with another device's table": {"another": {"f32": ranges}}}
    with tempfile.TemporaryDirectory() as scratch:
        named = module(Path(tempfile.mkdtemp(dir=scratch)), {"format": 1, "axes": ["hidden", "rows"], "devices": {}})
        device = named._processor()
        for count in (0, 1, 4, 13):
            cases[f"{count} ranges that do not fit"] = {device: {"f32": ranges[:count]}}
        cases["the first range fits"] = {device: {"f32": [[1, 64, 1, 64], *ranges]}}
        for name, devices in cases.items():
            table = None if devices is None else {"format": 1, "axes": ["hidden", "rows"], "devices": devices}
            asked = module(Path(tempfile.mkdtemp(dir=scratch)), table).pytorch_serves
            expected = name.endswith("do not fit")
            if asked(x, weight) is not expected:
                raise SystemExit(f"{name}: a call is served by the wrong one")
            record["ns"][name] = nanoseconds(lambda asked=asked: asked(x, weight))
    line = json.dumps(record)
    print(line)
    if arguments.out:
        arguments.out.write_text(line + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
