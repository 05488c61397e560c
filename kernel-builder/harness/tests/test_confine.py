"""A process that is kept to its home, in a Python of its own."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from confine import CREATE_RULESET, VERSION_ASKED

HARNESS = Path(__file__).parent.parent
# The process evaluates these expressions. Only those in `ALLOWED` may succeed.
TRIES = {
    "home": "open(home + '/file', 'w')",
    "expanded": "open(os.path.expanduser('~/file'), 'w')",
    "temporary": "tempfile.mkdtemp()",
    "named": "open(named + '/file', 'w')",
    "null": "open('/dev/null', 'w')",
    "thread": "open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w')",
    "read": "open(other + '/file').read()",
    "write": "open(other + '/file', 'w')",
    "append": "open(other + '/file', 'a')",
    "create": "open(other + '/new', 'w')",
    "remove": "os.remove(other + '/file')",
    "take": "os.rename(other + '/file', home + '/taken')",
    "link": "os.symlink('/', other + '/link')",
    "folder": "os.mkdir(other + '/folder')",
    "child": "subprocess.run(['cp', home + '/file', other + '/copied'], check=True, capture_output=True)",
    "memory": "open(f'/proc/{parent}/mem', 'r+b')",
}
ALLOWED = ("home", "expanded", "temporary", "named", "null", "thread", "read")
PROGRAM = """
import json, os, subprocess, sys, tempfile, threading
home, named, other, parent, tries = json.loads(sys.stdin.read())
os.environ["TRITON_CACHE_DIR"] = other
from confine import keep
keep(home, [named])
failed = {}
for name, text in tries.items():
    try:
        eval(text)
    except (OSError, subprocess.CalledProcessError) as error:
        failed[name] = type(error).__name__
print(json.dumps([failed, "TRITON_CACHE_DIR" in os.environ]))
"""


def has_landlock() -> bool:
    """Whether this system can confine a process."""
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None).syscall
    version = call(ctypes.c_long(CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_ASKED))
    return int(version) > 0


@pytest.mark.skipif(not has_landlock(), reason="this system has no Landlock")
def test_a_kept_process_writes_to_its_own_folders_alone(tmp_path: Path):
    home, named, other = (tmp_path / name for name in ("home", "named", "other"))
    for folder in (home, named, other):
        folder.mkdir()
    (other / "file").write_text("kept")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([str(home), str(named), str(other), os.getpid(), TRIES]),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(HARNESS), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=60,
    )
    failed, has_cache_elsewhere = json.loads(done.stdout or done.stderr)
    assert sorted(failed) == sorted(name for name in TRIES if name not in ALLOWED)
    assert not has_cache_elsewhere
    assert (other / "file").read_text() == "kept" and len(list(other.iterdir())) == 1
