"""Entry of the harness: reads one job from standard input and plays the role it names.

Owns: the private channel to the judge, the path of the managed packages. Never: decides whether a kernel is right.

The job comes in on standard input, not in the arguments or the environment, where a candidate could look for it.
"""

import importlib
import json
import os
import site
import sys

ROLES = ("oracle", "candidate", "linter")


def take_job() -> dict:
    """Read the whole job, then leave nothing of it on standard input."""
    job = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return job


def main() -> None:
    """Play the role of the job; the exit status only says whether the harness itself failed."""
    job = take_job()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    managed = os.environ.pop("KERNELWRIGHT_SITE", None)
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.pop("KERNELWRIGHT_BESIDE", "").split(":"))
    importlib.import_module("memory").keep_freed_memory()
    channel = importlib.import_module("channel").Channel.take_over(job.pop("nonce"))
    if job.pop("behind", False):
        # Somebody else is at work meanwhile, and comes first.
        os.nice(19)
    role = job.pop("role")
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}")
    importlib.import_module(role).play(job, channel)


if __name__ == "__main__":
    main()
