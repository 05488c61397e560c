"""Entry of the harness: reads one job from standard input and plays the role it names.

Owns: the private channel to the judge, the path of the managed packages. Never: decides whether a kernel is right.

The job comes in on standard input, not in the arguments or the environment, where a candidate could look for it.
"""

import importlib
import os
import site
import sys


def take_job() -> bytes:
    """Read the whole job, then leave nothing of it on standard input."""
    text = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return text


def main() -> None:
    """Play the role of the job; the exit status only says whether the harness itself failed."""
    text = take_job()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    managed = os.environ.pop("KERNELWRIGHT_SITE", None)
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.pop("KERNELWRIGHT_BESIDE", "").split(":"))
    from memory import keep_freed_memory
    from protocol_verify import CandidateJob, Job, OracleJob
    from wire import opening

    keep_freed_memory()
    nonce, job = opening(text, Job)
    if isinstance(job, CandidateJob) and job.home is not None:
        from confine import keep

        keep(job.home, [] if job.schedule is None else [job.schedule.dumps_dir])
    from channel import Channel

    channel = Channel.take_over(nonce)
    del text, nonce
    if isinstance(job, OracleJob) and job.behind:
        # Somebody else is at work meanwhile, and comes first.
        os.nice(19)
    role = importlib.import_module(job.TAG[1])
    if not isinstance(job, CandidateJob):
        # A candidate knows this folder. What it puts here must not get in the way of what torch imports later.
        own = os.path.dirname(os.path.abspath(__file__))
        sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != own]
    role.play(job, channel)


if __name__ == "__main__":
    main()
