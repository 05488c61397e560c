"""A function as a graph with symbolic lengths, for the translation to kernels.

Owns: how it is exported, the form of the graph, what its lengths and lines are. Never: decides what can be translated.
"""

from __future__ import annotations

import contextlib
import math
import re
import traceback
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast

import sympy
import torch
from torch.export import Dim
from torch.fx.proxy import TracerBase

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import Node

    from subject import Subject

# A polynomial of lengths: factors, each with its symbols.
Terms: TypeAlias = "list[tuple[int, list[str]]]"
# An expression of sympy, whose classes have no types of their members.
Expression: TypeAlias = Any


class Problem(TypedDict):
    """Why there is no graph."""

    what: str
    line: int | None
    text: str | None
    op: str | None


class RoundedDown(TypedDict, total=False):
    """A length that is a quotient, rounded down: what is divided, and by what."""

    computed: tuple[Terms, int]


class Symbol(RoundedDown):
    """A length of the call that was traced, its least value, and the symbol that it is a part of."""

    hint: int
    min: int
    quotient: tuple[str, int] | None


class TensorReport(TypedDict):
    """A tensor of a graph."""

    shape: list[Terms]
    dtype: str


class NodeReport(TypedDict):
    """An operator with its line in the person's file."""

    name: str
    op: str
    arguments: list[Any]
    keywords: dict[str, Any]
    results: list[TensorReport]
    line: int | None
    text: str | None


class InputReport(TypedDict):
    """A tensor that a graph reads: its name in the graph and in the call."""

    value: str
    name: str
    tensor: TensorReport
    # Whether the function needs values that are not less than zero.
    non_negative: bool


class GraphReport(TypedDict):
    """A graph, as kernel-plan/src/translate reads it."""

    function: str
    inputs: list[InputReport]
    nodes: list[NodeReport]
    outputs: list[str]
    symbols: dict[str, Symbol]


# Operators that a translation takes whole, of those that core ATen takes apart.
WHOLE = (
    "logsumexp.default",
    "linear.default",
    "matmul.default",
    "scaled_dot_product_attention.default",
)


class Untranslated(Exception):  # noqa: N818, it says what a function is
    """Why there is no graph, with the line of the person's file if it is known."""

    def __init__(
        self,
        what: str,
        line: int | None = None,
        text: str | None = None,
        op: str | None = None,
        final: bool = False,
    ) -> None:
        super().__init__(what)
        # Whether other inputs change nothing.
        self.final = final
        self.report: Problem = {"what": what, "line": line, "text": text, "op": op}


class Lengths:
    """Lengths and numbers of a graph as the report has them, with the symbols that they use."""

    def __init__(self, hints: dict[str, int], least: dict[str, int], floors: bool) -> None:
        self.hints, self.least = hints, least
        self.used: dict[str, Symbol] = {}
        # Whether lengths may be quotients that are rounded down, as behind a convolution with a stride.
        self.floors = floors
        self.floored: dict[tuple[Expression, int], str] = {}

    def symbol(self, name: str, hint: int, quotient: tuple[str, int] | None = None, least: int = 0) -> str:
        self.used[name] = {"hint": hint, "min": least, "quotient": quotient}
        return name

    def terms(self, expr: Expression) -> Terms:
        """A polynomial: factors with their symbols. Quotients of a symbol count as symbols."""
        expr = cast("Any", sympy.expand(expr))
        if expr.is_Integer:
            return [(int(expr), [])] if int(expr) else []
        if expr.is_Symbol:
            name = str(expr)
            return [(1, [self.symbol(name, self.hints[name], least=self.least.get(name, 0))])]
        if expr.is_Add:
            return [term for part in expr.args for term in self.terms(part)]
        if expr.is_Mul:
            found: Terms = [(1, [])]
            for part in expr.args:
                found = [(a * b, one + two) for a, one in found for b, two in self.terms(part)]
            return found
        kind = type(expr).__name__
        if kind in ("Pow", "PowByNatural") and expr.args[1].is_Integer and int(expr.args[1]) >= 0:
            factors = [expr.args[0]] * int(expr.args[1])
            return self.terms(sympy.Mul(*factors, evaluate=True))
        if kind in ("FloorDiv", "CleanDiv") and expr.args[1].is_Integer:
            return self.quotient(expr.args[0], int(expr.args[1]))
        if kind == "Mod" and expr.args[1].is_Integer:
            self.quotient(expr.args[0], int(expr.args[1]))
            return []
        if kind in ("FloorDiv", "CleanDiv"):
            ratio = cast("Any", sympy.cancel(self.exact(expr.args[0]) / self.exact(expr.args[1])))
            if ratio.is_Integer:
                return self.terms(ratio)
        raise Untranslated(f"a length is {expr}, which is not a polynomial of the lengths of the inputs")

    def quotient(self, whole: Expression, by: int) -> Terms:
        """`whole // by` for a symbol that is a multiple of `by`, with less than `by` added, as `chunk` does."""
        added = 0
        if whole.is_Add and len(whole.args) == 2 and whole.args[0].is_Integer and 0 < int(whole.args[0]) < by:
            added, whole = int(whole.args[0]), whole.args[1]
        if not whole.is_Symbol or self.hints[str(whole)] % by:
            if self.floors:
                return self.floor(whole + added, by)
            raise Untranslated(
                f"a length is ({whole + added}) // {by}, and {whole} is not a multiple of {by} in the call"
            )
        name = f"{whole}_by_{by}"
        self.terms(whole)
        return [(1, [self.symbol(name, self.hints[str(whole)] // by, (str(whole), by))])]

    def exact(self, expr: Expression) -> Expression:
        """An expression with quotients that leave no rest, as in `a // (2 * (a // 2))`, which `unflatten` makes."""
        if not expr.args:
            return expr
        if type(expr).__name__ in ("FloorDiv", "CleanDiv") and expr.args[1].is_Integer:
            self.quotient(expr.args[0], int(expr.args[1]))
            return expr.args[0] / expr.args[1]
        return expr.func(*[self.exact(one) for one in expr.args])

    def floor(self, whole: Expression, by: int) -> Terms:
        """`whole // by` as a symbol of its own."""
        name = self.floored.setdefault((whole, by), f"floor_{len(self.floored) + 1}")
        value = int(whole.subs({one: self.hints[str(one)] for one in whole.free_symbols})) // by
        self.used[name] = {"hint": value, "min": 0, "quotient": None, "computed": (self.terms(whole), by)}
        return [(1, [name])]

    def quantity(self, expr: Expression) -> Any:
        """A number that follows from lengths."""
        kind = type(expr).__name__
        if expr.is_Number:
            return float(expr)
        if kind == "ToFloat":
            return ["length", self.terms(expr.args[0])]
        if kind in ("FloatPow", "Pow", "PowByNatural"):
            return ["power", self.quantity(expr.args[0]), self.quantity(expr.args[1])]
        if kind == "OpaqueUnaryFn_sqrt":
            return ["power", self.quantity(expr.args[0]), 0.5]
        if kind in ("FloatTrueDiv", "IntTrueDiv"):
            return ["product", self.quantity(expr.args[0]), ["power", self.quantity(expr.args[1]), -1.0]]
        if kind in ("Add", "Mul"):
            return ["sum" if kind == "Add" else "product", *map(self.quantity, expr.args)]
        return ["length", self.terms(expr)]


def line_of(node: Node, path: str) -> tuple[int | None, str | None]:
    """The last line of the person's file that an operator comes from."""
    found: int | None = None
    frames: list[tuple[str, str]] = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    for name, line in frames:
        if name == path:
            found = int(line)
    if found is None:
        return None, None
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return found, lines[found - 1].strip() if found <= len(lines) else None


@contextlib.contextmanager
def quoting(path: str) -> Generator[None]:
    """Lets operators remember every line of the person's file that they come from, and not those of modules alone."""
    tracer: Any = TracerBase
    name = "_filter_traceback_frames"
    before = getattr(tracer, name, None)
    if before is None:
        yield
        return

    def own(_: TracerBase, summary: traceback.StackSummary) -> traceback.StackSummary:
        return traceback.StackSummary.from_list([frame for frame in summary if frame.filename == path])

    setattr(tracer, name, own)
    try:
        yield
    finally:
        setattr(tracer, name, before)


def exported_of(called: Callable[..., Any], tensors: list[Tensor], kinds: list[Any], path: str) -> ExportedProgram:
    """The exported program of a call; `kinds` say of each tensor whether its lengths are symbols."""
    shapes: Any = (tuple(dict.fromkeys(range(one.dim()), kind) for one, kind in zip(tensors, kinds)),)
    with quoting(path):
        # A module, which `callable` of subject.py makes for functions, too.
        return torch.export.export(cast("torch.nn.Module", called), tuple(tensors), dynamic_shapes=shapes)


def kinds_of(subject: Subject, names: list[str], tensors: list[Tensor], dynamic: bool) -> list[Any]:
    """Which tensors of a call have lengths that are symbols. Those of a module's convolutions are what they are."""
    return [
        Dim.AUTO if dynamic and not (name in subject.state and one.dim() > 2) else Dim.STATIC
        for name, one in zip(names, tensors)
    ]


def table() -> dict[Any, Callable[..., Any]]:
    """Core ATen, and what a translation takes whole."""
    found: Any = torch.export.default_decompositions()
    for kept in WHOLE:
        name, overload = kept.split(".")
        found.pop(getattr(getattr(torch.ops.aten, name), overload), None)
    return found


def values_of(node: Node) -> list[Any]:
    """What a node gives: tensors and numbers, of which some are symbols."""
    value = node.meta.get("val")
    return list(cast("Iterable[Any]", value)) if isinstance(value, (tuple, list)) else [value]


def symbolic_of(length: torch.SymInt | torch.SymFloat) -> Any:
    """The expression behind a length and its environment; torch has no types for either."""
    return cast("Any", length).node


def lengths_of(nodes: list[Node], limits: Mapping[Any, Any], path: str) -> Lengths:
    """The symbols of a graph's shapes, with their values in the call that was traced."""
    hints: dict[str, int] = {}
    least: dict[str, int] = {}
    for node in nodes:
        for one in values_of(node):
            lengths: list[Any] = list(one.shape) if isinstance(one, torch.Tensor) else [one]
            for length in lengths:
                if isinstance(length, torch.SymInt):
                    symbolic = symbolic_of(length)
                    known: dict[Any, Any] = symbolic.shape_env.backed_var_to_val
                    symbols: set[Any] = symbolic.expr.free_symbols
                    if not symbols <= set(known):
                        line, text = line_of(node, path)
                        raise Untranslated(
                            "a shape depends on values; use `torch.where` with a mask", line, text, final=True
                        )
                    hints |= {str(symbol): int(known[symbol]) for symbol in symbols}
    for symbol, limit in limits.items():
        # 2 is what export always asks for; a formula that holds there holds for less.
        lower = int(limit.lower)
        least[str(symbol)] = 0 if lower <= 2 else lower
    floors = any(re.search("convolution|pool", str(node.target)) for node in nodes)
    return Lengths(hints, least, floors)


class Described:
    """The operators of a graph as the report has them."""

    def __init__(self, nodes: list[Node], limits: Mapping[Any, Any], path: str) -> None:
        self.lengths = lengths_of(nodes, limits, path)
        self.nodes = [self.node(node, path) for node in nodes if is_operator(node)]

    def tensor(self, value: Tensor) -> TensorReport:
        lengths: list[Any] = list(value.shape)
        expressions: list[Expression] = [
            symbolic_of(one).expr if isinstance(one, torch.SymInt) else sympy.Integer(one) for one in lengths
        ]
        shape = [self.lengths.terms(one) for one in expressions]
        return {"shape": shape, "dtype": str(value.dtype).removeprefix("torch.")}

    def constant(self, name: str, value: Any) -> NodeReport:
        """A tensor that the function makes of a number: `torch.tensor(0.5)`."""
        if not isinstance(value, torch.Tensor) or value.dim() > 0:
            raise Untranslated("it makes a tensor of several numbers; pass that tensor as an argument", final=True)
        result = self.tensor(value)
        return {
            "name": name,
            "op": "aten.scalar_tensor.default",
            "arguments": [self.word(value.item())],
            "keywords": {"dtype": result["dtype"]},
            "results": [result],
            "line": None,
            "text": None,
        }

    def word(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            own = value.meta.get("val")
            return {"node": value.name} if isinstance(own, (torch.Tensor, tuple, list)) else self.word(own)
        if isinstance(value, (tuple, list)):
            return [self.word(one) for one in cast("Iterable[Any]", value)]
        if isinstance(value, torch.SymInt):
            return {"length": self.lengths.terms(symbolic_of(value).expr)}
        if isinstance(value, torch.SymFloat):
            return {"quantity": self.lengths.quantity(symbolic_of(value).expr)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        return str(value).removeprefix("torch.")

    def node(self, node: Node, path: str) -> NodeReport:
        line, text = line_of(node, path)
        target: Any = node.target
        name = str(target) if hasattr(target, "overloadpacket") else str(target.__name__)
        try:
            return {
                "name": node.name,
                "op": name,
                "arguments": [self.word(one) for one in node.args],
                "keywords": {key: self.word(one) for key, one in node.kwargs.items()},
                "results": [self.tensor(one) for one in values_of(node) if isinstance(one, torch.Tensor)],
                "line": line,
                "text": text,
            }
        except Untranslated as problem:
            raise Untranslated(str(problem), line, text, name) from problem


def is_operator(node: Node) -> bool:
    """Whether a node computes a tensor."""
    return node.op == "call_function" and any(isinstance(one, torch.Tensor) for one in values_of(node))


def graph(subject: Subject, program: ExportedProgram, names: list[str]) -> GraphReport:
    """The report of an exported program."""
    signature = program.graph_signature
    if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
        changed = next(iter([*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values()]))
        number = changed.removeprefix("tensors_")
        name = names[int(number)] if number.isdigit() else changed
        raise Untranslated(f"it changes `{name}`; return the new value instead", final=True)
    nodes = list(program.graph.nodes)
    described = Described(nodes, cast("Mapping[Any, Any]", program.range_constraints), subject.path)
    constants = [
        described.constant(name, program.constants[of])
        for name, of in signature.inputs_to_lifted_tensor_constants.items()
    ]
    places = [node for node in nodes if node.op == "placeholder"][-len(names) :]
    used = {name for node in nodes if node.op != "placeholder" for name in map(str, node.all_input_nodes)}
    inputs: list[InputReport] = [
        {
            "value": node.name,
            "name": identifier(name),
            "tensor": described.tensor(node.meta["val"]),
            "non_negative": False,
        }
        for node, name in zip(places, names)
        if node.name in used or name not in subject.state
    ]
    return {
        "function": subject.name,
        "inputs": inputs,
        "nodes": [*constants, *described.nodes],
        "outputs": [str(one.arg.name) for one in signature.output_specs],
        "symbols": described.lengths.used,
    }


def identifier(name: str) -> str:
    """The name of a tensor of a module as that of an argument."""
    return re.sub(r"\W", "_", name)
