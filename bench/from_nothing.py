"""How long a new user waits: the README's first command on a machine that has never seen this project.

Clones the commit that is checked out into a temporary folder with a HOME of its own (so every cache is empty), and
times: compiling the program, the first `make`, the second one, a build of an unchanged project, and a build after a
change of the CUDA source. Received bytes are those of the machine's network interfaces during each step, so run
nothing else beside it. Prints one JSON object; `python3 bench/from_nothing.py > bench/results/DATE-from-nothing.json`.
"""

import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="from-nothing-"))
    try:
        print(json.dumps(measure(folder), indent=2))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path) -> dict:
    home, clone = folder / "home", folder / "clone"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    environment = dict(os.environ, HOME=str(home), CARGO_HOME=str(home / ".cargo"))
    environment.setdefault("RUSTUP_HOME", str(Path.home() / ".rustup"))
    for name in ("KERNELWRIGHT_CACHE", "KERNELWRIGHT_PYTHON", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    steps = {}

    def step(name: str, *command: str) -> None:
        before, start = machine.received_bytes(), time.monotonic()
        done = subprocess.run(command, cwd=clone, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        seconds, received = time.monotonic() - start, machine.received_bytes() - before
        if done.returncode:
            sys.exit(f"`{' '.join(command)}` returned {done.returncode}:\n{done.stdout[-4000:]}")
        steps[name] = {"seconds": round(seconds, 2), "received_megabytes": round(received / 1e6, 1)}
        print(f"{name}: {steps[name]}", file=sys.stderr)

    program = str(clone / "target/debug/kernelwright")
    project = "layer-scale"
    make = ("cargo", "xtask", "kernel", "make", "--from", "tests/translation/models.py:layer_scale")
    step("compile the program", "cargo", "build", "--quiet", "--package", "kernel-builder")
    step("first make", *make)
    step("second make", *make)
    step("build, unchanged", program, "build", project)
    source = clone / project / "layer_scale_cuda/layer_scale_instances_0.cu"
    # Code: a comment is gone once the source is preprocessed, and nothing would be compiled.
    source.write_text(source.read_text() + "\nint function_of_an_edited_source() { return 1; }\n")
    step("build, one .cu changed", program, "build", project)
    step("help", "cargo", "xtask", "kernel", "--help")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, text=True, capture_output=True, check=True)
    return {
        "commit": commit.stdout.strip(),
        "date": datetime.date.today().isoformat(),
        "machine": machine.described(),
        "steps": steps,
    }


if __name__ == "__main__":
    main()
