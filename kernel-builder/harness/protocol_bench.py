"""The dialogue of a measurement: the jobs of both processes, requests and answers.

Written by `cargo xtask codegen` from kernel-builder/src/protocol; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from protocol import Dtype, Scalar, SourceText, TensorSpec

# How calls follow each other, and what lies in the caches before them.
Regime: TypeAlias = Literal["host", "cold", "graph", "hot"]

# The purpose of a block.
Aim: TypeAlias = Literal["sample", "audit", "queue"]


@dataclass(frozen=True)
class Reference:
    """The project's reference."""

    # Its file.
    source: SourceText
    # The reference function.
    function: str
    # PyTorch's fused operator, if there is one.
    fused: str | None


@dataclass(frozen=True)
class Tolerance:
    """How far outputs may be from those of the reference."""

    # The dtype of sums.
    accumulate: Dtype
    # Roundings to the output's dtype.
    roundings: int
    # Whether several times what PyTorch itself is off are allowed, for a package that calls its operators.
    own_errors: bool


@dataclass(frozen=True)
class BaselineJob:
    """Times the baselines, and compares outputs with the reference."""

    TAG: ClassVar[tuple[str, str]] = ("role", "baseline")
    # `cpu` or `cuda`.
    device: str
    threads: int
    reference: Reference
    # Baselines that are left out.
    without: list[str]
    tolerance: Tolerance


@dataclass(frozen=True)
class KernelJob:
    """Times the function of a package."""

    TAG: ClassVar[tuple[str, str]] = ("role", "candidate")
    # `cpu` or `cuda`.
    device: str
    threads: int
    # The package's folder.
    package: str
    # The name under which it is imported.
    id: str
    # Its function.
    call: str
    # The folder for inputs and outputs of calls.
    outputs_dir: str
    # The folder that is the process's home. It can write nowhere else, except to the folder of outputs. Absent if this
    # system cannot confine a process.
    home: str | None


@dataclass(frozen=True)
class Begin:
    """Take a case."""

    TAG: ClassVar[tuple[str, str]] = ("do", "begin")
    case: TimedCase


@dataclass(frozen=True)
class Prepare:
    """Make and warm the contenders of the case."""

    TAG: ClassVar[tuple[str, str]] = ("do", "prepare")
    # Decides the values that contents are cut from.
    seed: int


@dataclass(frozen=True)
class Go:
    """Start the clock of the block."""

    TAG: ClassVar[tuple[str, str]] = ("do", "go")


@dataclass(frozen=True)
class Suspect:
    """Name the calls of the last block that left nothing but what lay in their outputs before."""

    TAG: ClassVar[tuple[str, str]] = ("do", "suspect")


@dataclass(frozen=True)
class Give:
    """Write inputs and outputs of these calls of the last block to these files."""

    TAG: ClassVar[tuple[str, str]] = ("do", "give")
    places: list[int]
    files: list[str]


@dataclass(frozen=True)
class Judge:
    """Compare the outputs in files with the reference."""

    TAG: ClassVar[tuple[str, str]] = ("do", "judge")
    calls: list[TimedCall]


@dataclass(frozen=True)
class Trace:
    """Trace some calls of a case."""

    TAG: ClassVar[tuple[str, str]] = ("do", "trace")
    case: TimedCase
    seed: int


@dataclass(frozen=True)
class Leave:
    """Forget the case."""

    TAG: ClassVar[tuple[str, str]] = ("do", "leave")


@dataclass(frozen=True)
class TimedCase:
    """One concrete call."""

    id: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    scalars: dict[str, Scalar]
    # How many terms are accumulated.
    accumulated: int


@dataclass(frozen=True)
class BlockRequest:
    """Prepare a block of calls."""

    TAG: ClassVar[tuple[str, str]] = ("do", "block")
    # Whom to call. A block of nobody, or without calls, shows what the clocks cost, and what is done beside them.
    contender: str | None
    regime: Regime
    # Calls that are timed.
    calls: int
    # The input set of the first of them; the others follow, wrapping round.
    first: int
    # Decides the contents of the sets. A process learns it when the block begins.
    seed: int
    # Before the call at the first number, the edit of the second number is done to its set; not timed.
    edits: list[tuple[int, int]]
    aim: Aim


@dataclass(frozen=True)
class TimedCall:
    """A timed call whose outputs lie in a file."""

    file: str
    # The seed of its block.
    seed: int
    # The number of its contents: that of its set, but where every call has contents of its own.
    number: int
    edits: Edits


@dataclass(frozen=True)
class Edits:
    """Edits of a call's set, in order."""

    # Those that were done before the call.
    done: list[int]
    # Those of the whole block.
    all: list[int]


@dataclass(frozen=True)
class Machine:
    """The machine that figures belong to."""

    TAG: ClassVar[tuple[str, str]] = ("event", "machine")
    torch: str
    python: str
    threads: int
    # `cpu` or the GPU's name; absent if the machine does not have the device of the job.
    device: str | None
    # Why it is absent.
    reason: str | None
    # Bytes of the GPU's L2 cache.
    l2: int | None


@dataclass(frozen=True)
class Open:
    """The process waits for requests."""

    TAG: ClassVar[tuple[str, str]] = ("event", "open")


@dataclass(frozen=True)
class Begun:
    """The memory that a case needs before it can be prepared."""

    TAG: ClassVar[tuple[str, str]] = ("event", "begun")
    # Bytes of the device's memory that this process will hold, about.
    needs: int
    # Free bytes, if they are known.
    free: int | None
    # Bytes that the operation reads and writes at least.
    bytes: int


@dataclass(frozen=True)
class Prepared:
    """The contenders that can be timed on a case."""

    TAG: ClassVar[tuple[str, str]] = ("event", "prepared")
    # Input sets over which calls rotate.
    sets: int
    regimes: list[Sizes]
    skipped: list[LeftOut]
    # Facts for an auditor of the baselines.
    notes: list[str]


@dataclass(frozen=True)
class Ready:
    """The block is prepared."""

    TAG: ClassVar[tuple[str, str]] = ("event", "ready")


@dataclass(frozen=True)
class Done:
    """What one block took."""

    TAG: ClassVar[tuple[str, str]] = ("event", "done")
    # Seconds of all timed calls by the device's events; on a processor by the process's own clock.
    device: float
    # Seconds from the word to begin until the device was idle, by the process's own clock.
    inside: float
    # Calls whose outputs are kept; all where it is absent.
    kept: list[int] | None


@dataclass(frozen=True)
class Suspected:
    """Calls that left nothing in their outputs."""

    TAG: ClassVar[tuple[str, str]] = ("event", "suspected")
    places: list[int]


@dataclass(frozen=True)
class Given:
    """The files are written, unless the form of an output is wrong."""

    TAG: ClassVar[tuple[str, str]] = ("event", "given")
    wrong: str | None


@dataclass(frozen=True)
class Judged:
    """The first output or input that is wrong, if any."""

    TAG: ClassVar[tuple[str, str]] = ("event", "judged")
    wrong: str | None


@dataclass(frozen=True)
class Traced:
    """What NVIDIA's tracer saw of some calls."""

    TAG: ClassVar[tuple[str, str]] = ("event", "traced")
    calls: int
    # Seconds in which the device did something for the process, on whichever stream.
    busy: float
    streams: int
    kernels: list[TracedKernel]
    # Why nothing was seen.
    reason: str | None


@dataclass(frozen=True)
class Left:
    """The case is forgotten."""

    TAG: ClassVar[tuple[str, str]] = ("event", "left")


@dataclass(frozen=True)
class Raised:
    """The request raised an exception."""

    TAG: ClassVar[tuple[str, str]] = ("event", "raised")
    reason: str


@dataclass(frozen=True)
class Sizes:
    """How many calls a block has."""

    regime: Regime
    # By contender.
    calls: dict[str, int]
    # The most calls of an audit, by contender.
    most: dict[str, int]
    # Calls that fit into the queue of a device, by contender; empty without such a queue.
    queued: dict[str, int]


@dataclass(frozen=True)
class LeftOut:
    """A contender that is not timed, in one regime or in all."""

    name: str
    regime: Regime | None
    reason: str


@dataclass(frozen=True)
class TracedKernel:
    """What one kernel, copy or fill took of all calls together."""

    # As the driver names it.
    name: str
    launches: int
    seconds: float


# The role of a process, and what it is given.
Job: TypeAlias = BaselineJob | KernelJob
# A request to a process.
Request: TypeAlias = Begin | Prepare | BlockRequest | Go | Suspect | Give | Judge | Trace | Leave
# An answer of a process.
Answer: TypeAlias = (
    Machine | Open | Begun | Prepared | Ready | Done | Suspected | Given | Judged | Traced | Left | Raised
)
