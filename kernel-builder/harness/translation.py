"""A function as a graph with symbolic lengths, for the translation to kernels.

Owns: how it is exported, the form of the graph, the text of the reference. Never: decides what can be translated.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import inspect
import math
import re
import traceback
import warnings
from typing import Any

import sympy
import torch
from torch.export import Dim
from torch.fx.proxy import TracerBase

from calls import FLOATS, usual, widened

# Parameters that hold one number for each element of the last axis in most functions.
VECTORS = re.compile(r"(^|_)(weight|bias|gamma|beta|scale|shift|gain)$")
LENGTHS = (6, 10, 14, 16)
# Operators of core ATen that a translation takes whole, and others that it takes apart.
WHOLE = ("logsumexp.default",)
CASTS = ("_to_copy.default", "clone.default")
PINNED = """    with _Widened() if {first}.dtype == torch.float64 else nullcontext():
        return {call}
"""
WIDENED = '''

class _Widened(TorchDispatchMode):
    """Keeps float64 where the function casts to a narrower dtype, so that it is exact on float64 tensors."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        narrow = (torch.float32, torch.bfloat16, torch.float16)

        def wide(value):
            return torch.float64 if isinstance(value, torch.dtype) and value in narrow else value

        return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})
'''


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
        self.report = {"what": what, "line": line, "text": text, "op": op}


class Lengths:
    """Lengths and numbers of a graph as the report has them, with the symbols that they use."""

    def __init__(self, hints: dict, least: dict) -> None:
        self.hints, self.least, self.used = hints, least, {}

    def symbol(self, name: str, hint: int, quotient=None, least: int = 0) -> str:
        self.used[name] = {"hint": hint, "min": least, "quotient": quotient}
        return name

    def terms(self, expr) -> list:
        """A polynomial: factors with their symbols. Quotients of a symbol count as symbols."""
        expr = sympy.expand(expr)
        if expr.is_Integer:
            return [[int(expr), []]] if int(expr) else []
        if expr.is_Symbol:
            name = str(expr)
            return [[1, [self.symbol(name, self.hints[name], least=self.least.get(name, 0))]]]
        if expr.is_Add:
            return [term for part in expr.args for term in self.terms(part)]
        if expr.is_Mul:
            found = [[1, []]]
            for part in expr.args:
                found = [[a * b, one + two] for a, one in found for b, two in self.terms(part)]
            return found
        kind = type(expr).__name__
        if kind in ("Pow", "PowByNatural") and expr.args[1].is_Integer and int(expr.args[1]) >= 0:
            return self.terms(sympy.Mul(*[expr.args[0]] * int(expr.args[1]), evaluate=True))
        if kind in ("FloorDiv", "CleanDiv") and expr.args[1].is_Integer:
            return self.quotient(expr.args[0], int(expr.args[1]))
        if kind == "Mod" and expr.args[1].is_Integer:
            self.quotient(expr.args[0], int(expr.args[1]))
            return []
        raise Untranslated(f"a length is {expr}, which is not a polynomial of the lengths of the inputs")

    def quotient(self, of, by: int) -> list:
        """`of // by` for a symbol that is a multiple of `by`, with less than `by` added, as `chunk` does."""
        added = 0
        if of.is_Add and len(of.args) == 2 and of.args[0].is_Integer and 0 < int(of.args[0]) < by:
            added, of = int(of.args[0]), of.args[1]
        if not of.is_Symbol or self.hints[str(of)] % by:
            raise Untranslated(f"a length is ({of + added}) // {by}, and {of} is not a multiple of {by} in the call")
        name = f"{of}_by_{by}"
        self.terms(of)
        return [[1, [self.symbol(name, self.hints[str(of)] // by, [str(of), by])]]]

    def quantity(self, expr) -> Any:
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


def line_of(node, path: str) -> tuple[int | None, str | None]:
    """The last line of the person's file that an operator comes from."""
    found = None
    for name, line in re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or ""):
        if name == path:
            found = int(line)
    if found is None:
        return None, None
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return found, lines[found - 1].strip() if found <= len(lines) else None


@contextlib.contextmanager
def quoting(path: str):
    """Lets operators remember every line of the person's file that they come from, and not those of modules alone."""
    tracer, name = TracerBase, "_filter_traceback_frames"
    before = getattr(tracer, name, None)
    if before is None:
        yield
        return

    def own(self, summary):
        return traceback.StackSummary.from_list([frame for frame in summary if frame.filename == path])

    setattr(tracer, name, own)
    try:
        yield
    finally:
        setattr(tracer, name, before)


def drawn(subject) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a call: those of `example_inputs()` and of the module, others by the names of their parameters."""
    given, found = subject.example_values, []
    matrix = [LENGTHS[0], LENGTHS[-1]]
    kinds = (torch.nn.modules.batchnorm._NormBase, torch.nn.GroupNorm)
    if any(isinstance(one, kinds) for one in parts(subject)):
        # Channels of images.
        lengths = [one.shape[0] for one in subject.state.values() if one.dim() == 1]
        matrix = [3, *(lengths[:1] or [8]), LENGTHS[0], LENGTHS[1]]
    for slot in subject.slots():
        if slot.name in given:
            found.append((slot.name, given[slot.name]))
        elif slot.name in subject.state:
            found.append((slot.name, subject.state[slot.name]))
        elif not slot.optional:
            shape = [LENGTHS[-1]] if VECTORS.search(slot.name) else matrix
            found.append((slot.name, torch.randn(shape)))
    return found


def parts(subject) -> list:
    return list(subject.instance.modules()) if subject.is_module else []


def choices(subject):
    """Tensors of calls to try, until one works."""
    first = drawn(subject)
    yield first
    fixed = {**subject.example_values, **subject.state}
    free = [name for name, _ in first if name not in fixed]
    for ranks in ((2, 2), (1, 1), (3, 3), (3, 1), (4, 4), (4, 1), (2, 0)):
        shapes = {
            name: [*LENGTHS[: ranks[min(place, 1)] - 1], LENGTHS[-1]] if ranks[min(place, 1)] else []
            for place, name in enumerate(free)
        }
        yield [(name, torch.randn(shapes[name]) if name in shapes else value) for name, value in first]


def narrowed(tensors: list, dtype) -> tuple[list, bool]:
    """Floating-point tensors in one dtype, and whether they all had the same one."""
    floats = {one.dtype for one in tensors if one.is_floating_point()}
    if len(floats) > 1:
        return tensors, False
    return [one.to(dtype) if one.is_floating_point() else one for one in tensors], True


def program_of(called, tensors: list, dynamic: bool, path: str):
    """The exported program of a call, in core ATen."""
    kind = Dim.AUTO if dynamic else Dim.STATIC
    shapes = (tuple(dict.fromkeys(range(one.dim()), kind) for one in tensors),)
    with quoting(path):
        exported = torch.export.export(called, tuple(tensors), dynamic_shapes=shapes)
    table = torch.export.default_decompositions()
    for kept in WHOLE:
        name, overload = kept.split(".")
        table.pop(getattr(getattr(torch.ops.aten, name), overload), None)
    return exported.run_decompositions(table)


def graph(subject, program, names: list[str], tensors: list) -> dict:
    """The report of an exported program."""
    signature = program.graph_signature
    if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
        changed = next(iter([*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values()]))
        number = changed.removeprefix("tensors_")
        name = names[int(number)] if number.isdigit() else changed
        raise Untranslated(f"it changes `{name}`; return the new value instead", final=True)
    hints, least, nodes = {}, {}, []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for one in value if isinstance(value, (tuple, list)) else [value]:
            for length in one.shape if isinstance(one, torch.Tensor) else [one]:
                if isinstance(length, torch.SymInt):
                    known = length.node.shape_env.backed_var_to_val
                    if not length.node.expr.free_symbols <= set(known):
                        line, text = line_of(node, subject.module.__file__)
                        raise Untranslated(
                            "a shape depends on values; use `torch.where` with a mask", line, text, final=True
                        )
                    hints |= {str(symbol): int(known[symbol]) for symbol in length.node.expr.free_symbols}
    for symbol, limits in program.range_constraints.items():
        # 2 is what export always asks for; a formula that holds there holds for less.
        lower = int(limits.lower)
        least[str(symbol)] = 0 if lower <= 2 else lower
    lengths = Lengths(hints, least)

    def tensor(value) -> dict:
        expressions = [one.node.expr if isinstance(one, torch.SymInt) else sympy.Integer(one) for one in value.shape]
        return {"shape": [lengths.terms(one) for one in expressions], "dtype": str(value.dtype).removeprefix("torch.")}

    def word(value) -> Any:
        if isinstance(value, torch.fx.Node):
            own = value.meta.get("val")
            return {"node": value.name} if isinstance(own, (torch.Tensor, tuple, list)) else word(own)
        if isinstance(value, (tuple, list)):
            return [word(one) for one in value]
        if isinstance(value, torch.SymInt):
            return {"length": lengths.terms(value.node.expr)}
        if isinstance(value, torch.SymFloat):
            return {"quantity": lengths.quantity(value.node.expr)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        return str(value).removeprefix("torch.")

    for node in program.graph.nodes:
        value = node.meta.get("val")
        line, text = line_of(node, subject.module.__file__)
        results = value if isinstance(value, (tuple, list)) else [value]
        if node.op != "call_function" or not any(isinstance(one, torch.Tensor) for one in results):
            continue
        target = node.target
        name = str(target) if hasattr(target, "overloadpacket") else target.__name__
        try:
            nodes.append(
                {
                    "name": node.name,
                    "op": name,
                    "arguments": [word(one) for one in node.args],
                    "keywords": {key: word(one) for key, one in node.kwargs.items()},
                    "results": [tensor(one) for one in results if isinstance(one, torch.Tensor)],
                    "line": line,
                    "text": text,
                }
            )
        except Untranslated as problem:
            raise Untranslated(str(problem), line, text, name) from problem
    constants = list(signature.inputs_to_lifted_tensor_constants)
    if constants:
        raise Untranslated(f"it uses the tensor `{constants[0]}`, which is not one of its arguments", final=True)
    places = [node for node in program.graph.nodes if node.op == "placeholder"][-len(names) :]
    used = {name for node in program.graph.nodes if node.op != "placeholder" for name in map(str, node.all_input_nodes)}
    inputs = [
        {"value": node.name, "name": identifier(name), "tensor": tensor(node.meta["val"])}
        for node, name in zip(places, names)
        if node.name in used or name not in subject.state
    ]
    return {
        "function": subject.name,
        "inputs": inputs,
        "nodes": nodes,
        "outputs": [str(one.arg.name) for one in signature.output_specs],
        "symbols": lengths.used,
    }


def identifier(name: str) -> str:
    """The name of a tensor of a module as that of an argument."""
    return re.sub(r"\W", "_", name)


def operators(program) -> list:
    """The operators of a program without casts, and the dtypes of what they give."""
    found = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        name = str(node.target).removeprefix("aten.")
        if node.op == "call_function" and isinstance(value, torch.Tensor) and name not in CASTS:
            dtype = torch.float32 if value.dtype in (torch.bfloat16, torch.float32) else value.dtype
            found.append((name, dtype))
    return found


def written(value) -> str:
    """A value as Python text; an error for one that has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    if isinstance(value, (tuple, list)) and all(not isinstance(one, torch.Tensor) for one in value):
        inside = ", ".join(map(written, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    raise Untranslated(f"an argument is {type(value).__name__}, which cannot be written into the reference")


def reference(subject, names: list[str], kept: list[str], exact: bool) -> dict:
    """The reference of the kernel: the person's own function, or a text that calls it, and the function's name."""
    arguments = [identifier(name) for name in names if name in kept]
    direct = [one.name for one in subject.parameters[: len(names)]] == names
    pinned = [one for one in subject.parameters if one.name not in names and (one.pinned or not one.optional)]
    if not subject.is_module and direct and not pinned and exact:
        return {"function": subject.name, "text": ""}
    given, called = {name: identifier(name) for name in names}, []
    for one in subject.parameters:
        if one.name in given:
            called.append(f"{one.name}={given[one.name]}" if called and "=" in called[-1] else given[one.name])
        elif one.pinned or (one.kind == "fixed" and not one.optional):
            called.append(f"{one.name}={written(one.value)}")
        elif not one.optional:
            raise Untranslated(f"`{one.name}` has no default: give it one, or define `example_inputs()`")
        else:
            called.append(f"{one.name}={written(inspect.signature(target(subject)).parameters[one.name].default)}")
    own = subject.name
    name = f"{re.sub(r'(?<!^)(?=[A-Z])', '_', own).lower()}_reference"
    text = "\n\n# The call that the kernel computes.\n"
    text += "" if exact else "from contextlib import nullcontext  # noqa: E402\n\n"
    text += "import torch  # noqa: E402\n"
    text += "" if exact else "from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402\n" + WIDENED
    call = f"{own}({', '.join(called)})"
    if subject.is_module:
        maker = "example_module()" if hasattr(subject.module, "example_module") else f"{own}({made_with(subject)})"
        text += f"\n_module = {maker}.eval()\n"
        state = ", ".join(f'"{key}": {given[key]}' for key in subject.state if key in kept)
        positional = [one for one in called if "=" not in one]
        by_name = [one.split("=", 1) for one in called if "=" in one]
        words = ", ".join(f'"{key}": {value}' for key, value in by_name)
        call = f"torch.func.functional_call(_module, {{{state}}}, ({''.join(one + ', ' for one in positional)}), {{{words}}})"
    text += f"\n\ndef {name}({', '.join(arguments)}):\n"
    text += f'    """`{own}` as a function of its tensors."""\n'
    text += (
        f"    return {call}\n"
        if exact
        else PINNED.format(first=first_float(arguments, names, kept, subject), call=call)
    )
    return {"function": name, "text": text}


def target(subject):
    return subject.instance.forward if subject.is_module else subject.found


def made_with(subject) -> str:
    """The arguments that an instance was made with."""
    if subject.length_parameter is None:
        return ""
    bound = subject.state and next(iter(subject.state.values())).shape[0]
    return f"{subject.length_parameter}={bound or LENGTHS[-1]}"


def first_float(arguments: list, names: list, kept: list, subject) -> str:
    tensors = subject.traced
    floats = [name for name in names if name in kept and tensors[name].is_floating_point()]
    return identifier(floats[0]) if floats else arguments[0]


def least_length(called, graph: dict, dtypes: list) -> int:
    """The least of 0, 1 and 2 from which on a call may have all lengths at once."""
    factors = dict(one["quotient"] for one in graph["symbols"].values() if one["quotient"])
    least = 2
    for length in (1, 0):
        tensors = []
        for one, dtype in zip(graph["inputs"], dtypes):
            shape = []
            for terms in one["tensor"]["shape"]:
                symbols = [name for _, names in terms for name in names]
                shape.append(length * factors.get(symbols[0], 1) if symbols else sum(factor for factor, _ in terms))
            tensors.append(torch.zeros(shape, dtype=dtype))
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                called(*tensors)
        except Exception:
            break
        least = length
    return least


def differs(called, tensors: list) -> bool:
    """Whether float64 does not stay float64 without help."""
    FLOATS.update(dict.fromkeys((torch.float32, torch.bfloat16, torch.float16)))
    wide = [one.double() if one.is_floating_point() else one for one in tensors]
    with torch.no_grad(), usual(torch):
        plain = flat(called(*[one.clone() for one in wide]))
        with widened(torch):
            exact = flat(called(*[one.clone() for one in wide]))
    return any(
        one.dtype != two.dtype or not torch.equal(one.nan_to_num(), two.nan_to_num())
        for one, two in zip(plain, exact)
        if one.is_floating_point() or two.is_floating_point()
    )


def flat(value) -> list:
    return [part for one in value for part in flat(one)] if isinstance(value, (tuple, list)) else [value]


def refuse_aliases(called, tensors: list, names: list[str]) -> None:
    """A result that shares memory with an argument is no new tensor."""
    own = {one.untyped_storage().data_ptr(): name for one, name in zip(tensors, names) if one.numel()}
    with torch.no_grad():
        for one in flat(called(*tensors)):
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() in own:
                name = own[one.untyped_storage().data_ptr()]
                raise Untranslated(
                    f"its result is a view of its argument `{name}`, or that argument itself", final=True
                )


def translation(subject) -> dict:
    """The graph of a function with all that a project needs; the reason where it has none."""
    problem: Untranslated | None = None
    for chosen in choices(subject):
        names, values = [name for name, _ in chosen], [value for _, value in chosen]
        for dynamic in (True, False):
            try:
                return {"translation": of_call(subject, names, values, dynamic), "untranslated": None}
            except Untranslated as error:
                problem = error if error.final else problem or error
            except Exception as error:
                problem = problem or failure(error, subject.module.__file__)
            if problem.final:
                return {"translation": None, "untranslated": problem.report}
        if subject.example_values or not chosen:
            break
    problem = problem or Untranslated("it has no tensors as arguments")
    return {"translation": None, "untranslated": problem.report}


def failure(error: Exception, path: str) -> Untranslated:
    """What an exception of torch.export means, with the person's line that was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line, text = (frames[-1].lineno, frames[-1].line) if frames else (None, None)
    if "DataDependent" in type(error).__name__:
        what = "it decides by the values of tensors, and has several graphs; use `torch.where`"
        return Untranslated(what, line, text, final=True)
    return Untranslated(f"{type(error).__name__}: {error}".splitlines()[0][:300], line, text)


def of_call(subject, names: list[str], values: list, dynamic: bool) -> dict:
    subject.traced = dict(zip(names, values))
    numbers = {}
    called = subject.callable(names, numbers)
    with usual(torch):
        with torch.no_grad():
            called(*[one.clone() for one in values])
        tensors, variable = narrowed(values, torch.bfloat16)
        program = program_of(called, tensors, dynamic, subject.module.__file__)
        found = graph(subject, program, names, tensors)
        refuse_aliases(called, [one.clone() for one in values], names)
        if variable:
            wide = program_of(called, narrowed(values, torch.float32)[0], dynamic, subject.module.__file__)
            if operators(wide) != operators(program):
                raise Untranslated("it has other operators, or other dtypes inside, for bfloat16 than for float32")
    inputs = [one["name"] for one in found["inputs"]]
    kept = [name for name in names if identifier(name) in inputs]
    exact = not differs(called, values)
    dtypes = [subject.traced[name].dtype for name in kept]
    least = least_length(subject.callable(kept, numbers), found, dtypes) if len(kept) == len(names) else 1
    for symbol in found["symbols"].values():
        symbol["min"] = max(symbol["min"], least)
    return {
        "graph": {**found, "variable": variable},
        "dynamic": dynamic,
        "reference": reference(subject, names, kept, exact),
        "guessed": [] if subject.example_values else [name for name in kept if name not in subject.state],
    }
