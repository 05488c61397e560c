"""The dialogue of a judgement: the jobs of the oracle, the candidate and the linter, and their events.

Written by `cargo xtask codegen` from kernel-builder/src/protocol; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from protocol import Scalar, SourceText, TensorSpec

# How the values of inputs are distributed; `harness/values.py` draws them.
Distribution: TypeAlias = Literal[
    "normal",
    "small",
    "large",
    "sparse",
    "uniform",
    "equal",
    "one-hot",
    "sorted",
    "shifted",
    "outlier",
    "tiny",
    "mixed",
    "non-finite",
]

# How results are handed over.
Form: TypeAlias = Literal["out", "functional", "gradient"]

# How a trial is made.
Manner: TypeAlias = Literal["single", "held", "streams", "overwritten", "read-only", "read-along", "scrambled"]

# Why a trial failed.
Failure: TypeAlias = Literal["raised", "malformed", "tampered", "settings", "stream", "network", "disturbed"]


@dataclass(frozen=True)
class OracleCase:
    """A case with the inputs to make."""

    # The case's name, a part of each seed.
    id: str
    # Its place in the schedule, which names its files.
    place: int
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    # The gradients that are judged, in the order of inputs.
    gradients: list[GradientSpec]
    # For each output the error that the bound explains for each unit of the size of its terms, where PyTorch's own
    # operators are a part of what is judged, so that their errors explain its errors; empty for others.
    explained: list[float]
    sets: list[InputSet]


@dataclass(frozen=True)
class GradientSpec:
    """The gradient with respect to one input."""

    # Named as PyTorch names it, `weight.grad`; shape and dtype are those of the input.
    tensor: TensorSpec
    # The input's place.
    of: int


@dataclass(frozen=True)
class InputSet:
    """The arguments of one call."""

    kind: Distribution
    # The set whose values this one repeats, but for one element, one scalar or one change.
    edit_of: int | None
    # The input that holds the changed element.
    edit_input: int | None
    # The change to whole inputs.
    change: Change | None
    scalars: dict[str, Scalar]
    # Whether PyTorch's own result in the real dtype is wanted for comparison.
    baseline: bool
    # Whether gradients at these values are wanted.
    gradient: bool
    # Whether the size of terms is wanted for every row, since no row shows it.
    hard: bool


@dataclass(frozen=True)
class Redraw:
    """All its values are drawn anew."""

    TAG: ClassVar[tuple[str, str]] = ("what", "redraw")
    input: int


@dataclass(frozen=True)
class Shuffle:
    """Along one dimension its values change places, differently in every line of that dimension."""

    TAG: ClassVar[tuple[str, str]] = ("what", "shuffle")
    input: int
    dimension: int


@dataclass(frozen=True)
class Reverse:
    """The indices of these dimensions, given as input and dimension, run backwards."""

    TAG: ClassVar[tuple[str, str]] = ("what", "reverse")
    places: list[tuple[int, int]]


@dataclass(frozen=True)
class Scale:
    """Its values are multiplied."""

    TAG: ClassVar[tuple[str, str]] = ("what", "scale")
    input: int
    by: float


@dataclass(frozen=True)
class Shift:
    """A number is added to its values."""

    TAG: ClassVar[tuple[str, str]] = ("what", "shift")
    input: int
    by: float


@dataclass(frozen=True)
class OracleJob:
    """Makes the inputs of all cases, and later the expected results."""

    TAG: ClassVar[tuple[str, str]] = ("role", "oracle")
    # The seed of all values; secret.
    seed: int
    # Threads for every computation on the host.
    threads: int
    # Whether other processes have priority.
    behind: bool
    # Whether float64 arithmetic may run on the GPU.
    on_gpu: bool
    # The project's reference file.
    reference: SourceText
    # The reference function.
    function: str
    # The function that computes gradients, if the project has one.
    gradient: str | None
    # The file whose text says whether expected results are wanted.
    gate: str
    # The folder for inputs.
    inputs_dir: str
    # The folder for expected results.
    expected_dir: str
    cases: list[OracleCase]


@dataclass(frozen=True)
class Schedule:
    """The calls of a candidate."""

    # The keywords of given outputs.
    out: list[str]
    # The file whose text says whether the package may be imported.
    begin: str
    # The file whose text says whether the inputs are there.
    gate: str
    # The folder of inputs.
    inputs_dir: str
    # The folder for what calls leave.
    dumps_dir: str
    cases: list[CandidateCase]


@dataclass(frozen=True)
class CandidateCase:
    """A case with the calls to make."""

    # Its place in the schedule, which names its files.
    place: int
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    # The gradients that are judged, in the order of inputs.
    gradients: list[GradientSpec]
    sets: list[CandidateSet]
    trials: list[Trial]


@dataclass(frozen=True)
class CandidateSet:
    """The arguments of a call as the candidate's process knows them; their values lie in a file."""

    scalars: dict[str, Scalar]


@dataclass(frozen=True)
class Trial:
    """One call (or several) of the candidate, and the dump that follows it."""

    # Unique in the schedule, counted from 0.
    id: int
    # Place in the case's sets.
    set: int
    form: Form
    # The byte that fills guards and outputs.
    poison: int
    # Trials of a case that name the same arena use the same addresses.
    arena: str
    # Bytes on each side of a tensor that nobody may write.
    guard: int
    # Elements by which every tensor is moved off the allocation's alignment.
    shift: int
    # Strides in elements, by the place of the input, of inputs that are not dense.
    strides: dict[str, list[int]]
    # Calls before the dump; inputs and poison are renewed before the first and the last.
    calls: int
    # Alone, or in which kind of group: neighbors of one manner are one group.
    manner: Manner
    # The input that is watched, if the manner is about one.
    input: int | None


@dataclass(frozen=True)
class CandidateJob:
    """Imports a package, and calls its function as scheduled."""

    TAG: ClassVar[tuple[str, str]] = ("role", "candidate")
    # The package's folder.
    package: str
    # The namespace of its operators.
    namespace: str
    # Its function, if an operation names one.
    function: str | None
    # `cpu`, `cuda` or another backend.
    device: str
    # Threads for every computation on the host.
    threads: int
    # The folder that is the process's home. It can write nowhere else, except to the folder of dumps. Absent if this
    # system cannot confine a process.
    home: str | None
    # The calls to make; absent to import the package alone.
    schedule: Schedule | None


@dataclass(frozen=True)
class LinterCase:
    """A case, and which of its sets have values of their own: the inputs of those are written, too."""

    case: OracleCase
    # For each set.
    plain: list[bool]


@dataclass(frozen=True)
class LinterJob:
    """Computes the reference in float64 at many sets of inputs."""

    TAG: ClassVar[tuple[str, str]] = ("role", "linter")
    # The seed of all values; the same for everyone.
    seed: int
    threads: int
    # The device of the reference.
    device: str
    # The project's reference file.
    reference: SourceText
    # The reference function.
    function: str
    # The folder for inputs and results.
    values_dir: str
    cases: list[LinterCase]


@dataclass(frozen=True)
class Started:
    """The oracle or the linter has loaded the reference."""

    TAG: ClassVar[tuple[str, str]] = ("event", "started")
    torch: str
    python: str


@dataclass(frozen=True)
class InputsReady:
    """The oracle has written the inputs of all cases."""

    TAG: ClassVar[tuple[str, str]] = ("event", "inputs-ready")


@dataclass(frozen=True)
class NoReference:
    """The reference fails: on one case, or when it is loaded."""

    TAG: ClassVar[tuple[str, str]] = ("event", "no-reference")
    case: int | None
    error: str


@dataclass(frozen=True)
class NoBaseline:
    """PyTorch has no result in the real dtype."""

    TAG: ClassVar[tuple[str, str]] = ("event", "no-baseline")
    reason: str


@dataclass(frozen=True)
class Expected:
    """The oracle has written the expected results of one set."""

    TAG: ClassVar[tuple[str, str]] = ("event", "expected")
    case: int
    set: int
    # Whether there is a result of PyTorch in the real dtype.
    baseline: bool
    # Whether the reference leaves open what an infinity or NaN leads to.
    undefined: bool
    # SHA-256 of each file, in hexadecimal.
    digests: list[str]


@dataclass(frozen=True)
class Computed:
    """The linter has written the files of one case."""

    TAG: ClassVar[tuple[str, str]] = ("event", "computed")
    case: int


@dataclass(frozen=True)
class Loaded:
    """The package is imported."""

    TAG: ClassVar[tuple[str, str]] = ("event", "loaded")
    # Operators in its namespace.
    operators: list[str]
    # Operators of its libraries in other namespaces.
    elsewhere: list[str]
    # Operators with two kernels for one dispatch key.
    doubled: list[str]
    has_function: bool
    # Whether the import imports `torch._dynamo`.
    imports_compiler: bool
    torch: str
    python: str
    # `cpu`, or the GPU's name.
    device: str
    cuda_available: bool


@dataclass(frozen=True)
class LoadFailed:
    """The import fails."""

    TAG: ClassVar[tuple[str, str]] = ("event", "load-failed")
    error: str


@dataclass(frozen=True)
class Begin:
    """A trial begins."""

    TAG: ClassVar[tuple[str, str]] = ("event", "begin")
    trial: int


@dataclass(frozen=True)
class End:
    """A trial has left its dump."""

    TAG: ClassVar[tuple[str, str]] = ("event", "end")
    trial: int


@dataclass(frozen=True)
class Kept:
    """The package keeps memory between calls."""

    TAG: ClassVar[tuple[str, str]] = ("event", "kept")
    bytes: int


@dataclass(frozen=True)
class NoSpace:
    """A dump could not be written because the disk is full. The process ends."""

    TAG: ClassVar[tuple[str, str]] = ("event", "no-space")


@dataclass(frozen=True)
class Failed:
    """A trial failed."""

    TAG: ClassVar[tuple[str, str]] = ("event", "failed")
    trial: int
    kind: Failure
    error: str


@dataclass(frozen=True)
class Done:
    """The role is at its end."""

    TAG: ClassVar[tuple[str, str]] = ("event", "done")
    # Python files of others that the candidate's process opened.
    opened: list[str]


# The role of a process, and its task.
Job: TypeAlias = OracleJob | CandidateJob | LinterJob
# A change to inputs as a whole; inputs are named by their places.
Change: TypeAlias = Redraw | Shuffle | Reverse | Scale | Shift
# An event of a role.
Event: TypeAlias = (
    Started
    | InputsReady
    | NoReference
    | NoBaseline
    | Expected
    | Computed
    | Loaded
    | LoadFailed
    | Begin
    | End
    | Kept
    | NoSpace
    | Failed
    | Done
)
