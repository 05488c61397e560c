"""The parts of a model's code that a kernel could compute: what stands between products, convolutions and attention.

Owns: which parts there are, and what is counted of each. Never: decides whether a kernel is worth it; writes a file.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# They trace the code of a model, and replace parts of it.
places: Any = importlib.import_module("injection.places")
rewriting: Any = importlib.import_module("injection.rewriting")
tracing: Any = importlib.import_module("injection.trace")

#: Functions of PyTorch that stay a call of a library.
LIBRARY = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "embedding", "scaled_dot_product_attention")
#: Steps that move nothing.
VIEWS = frozenset(
    {
        "chunk",
        "contiguous",
        "detach",
        "expand",
        "expand_as",
        "flatten",
        "getattr",
        "getitem",
        "permute",
        "reshape",
        "size",
        "split",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    }
)


@dataclass
class Part:
    """A part of the code of some modules, and what was seen of it."""

    number: int
    #: What people call it, such as `qwen3_mlp`.
    name: str
    #: The part as steps.
    graph: torch.fx.Graph
    own: Callable[..., Any]
    #: The classes that have it, with how many modules of each.
    classes: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    #: Shapes and dtypes of a call's tensors; None where one of them is no tensor.
    tensors: list[tuple[list[int], torch.dtype]] | None = None
    #: Whether the second and third axis of the tensors of four axes are swapped, as those of heads are before attention.
    swapped: bool = False
    #: The numbers of axes of the results.
    results: list[int] = field(default_factory=list)
    #: Bytes that all calls move: as they are, and at least.
    moved: int = 0
    least: int = 0

    def key(self) -> str:
        """Its range in a profile."""
        return f"part {self.number}"


class Traffic(TorchDispatchMode):
    """Counts the bytes that operators read and write. Views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operator."""
        found = func(*args, **(kwargs or {}))
        if not any(one.alias_info is not None for one in func._schema.returns):
            self.bytes += size(args) + size(kwargs or {}) + size(found)
        return found


def size(value: Any) -> int:
    """The bytes of all tensors in a value, each once. What an expanded tensor repeats counts once, too."""
    found: dict[int, int] = {}
    leaves: list[Any] = tree_leaves(value)
    for one in leaves:
        if isinstance(one, torch.Tensor):
            elements = 1
            for length, stride in zip(one.shape, one.stride(), strict=True):
                elements *= length if stride != 0 else 1
            found[one.data_ptr()] = max(found.get(one.data_ptr(), 0), elements * one.element_size())
    return sum(found.values())


def is_swapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor is dense with its second and third axis the other way round."""
    return not tensor.is_contiguous() and tensor.transpose(1, 2).is_contiguous()


class Parts:
    """The parts of a model, which call themselves within a range of the profiler while this is entered."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.found: list[Part] = []
        self.counts = True
        self.known: dict[Any, tuple[types.FunctionType, list[Part]] | None] = {}
        self.changed: list[torch.nn.Module] = []
        self.functions: dict[int, tuple[Any, Callable[..., Any] | None, Part | None]] = {}

    def __enter__(self) -> Parts:
        modules: list[Any] = list(self.model.modules())
        for module in modules:
            if isinstance(module, torch.jit.ScriptModule) or places.current(module) is None:
                continue
            forward = places.current(module)
            inner = inspect.unwrap(forward)
            found = self.of_module(module, inner)
            outer = None if found is None else places.decorated(forward, found[0])
            if found is None or outer is None:
                continue
            for part in found[1]:
                kind = type(module).__name__
                part.classes[kind] = part.classes.get(kind, 0) + 1
            places.put(module, outer, "profile")
            self.changed.append(module)
        return self

    def __exit__(self, *error: object) -> None:
        for module in reversed(self.changed):
            places.take(module)
        self.changed.clear()

    def of_module(self, module: Any, inner: Any) -> tuple[types.FunctionType, list[Part]] | None:
        """The code of a module with its parts watched, and these; None without any."""
        kind: Any = module.__class__
        try:
            traced = tracing.trace(module, inner, set[Any]())
            key: tuple[Any, ...] = (inner, str(traced.graph), kind)
            if key in self.known:
                return self.known[key]
            alone = owned(traced)
            if alone:
                # A part that lies in one submodule is found when that submodule is looked at.
                others = {module.get_submodule(name) for name in traced.within if name in alone}
                traced = tracing.trace(module, inner, others)
        except tracing.Unclear:
            return self.of_functions(module, inner)
        parts = [self.watched(traced.graph, nodes, kind.__name__) for nodes in components(traced.graph)]
        kept = [part for part in parts if part is not None]
        self.known[key] = (rewriting.compiled(traced, inner), kept) if kept else None
        return self.known[key]

    def of_functions(self, module: Any, inner: Any) -> tuple[types.FunctionType, list[Part]] | None:
        """Code that cannot be traced, with the functions watched that it calls."""
        kind: Any = module.__class__
        key: tuple[Any, ...] = (inner, kind)
        if key in self.known:
            return self.known[key]
        found: dict[str, Callable[..., Any]] = {}
        parts: list[Part] = []
        for name in inner.__code__.co_names:
            function = inner.__globals__.get(name)
            if not isinstance(function, types.FunctionType) or function.__module__.startswith("torch."):
                continue
            watched, part = self.of_function(function)
            if watched is not None and part is not None:
                found[name] = watched
                parts.append(part)
        self.known[key] = (places.with_names(inner, found), parts) if found else None
        return self.known[key]

    def of_function(self, function: types.FunctionType) -> tuple[Callable[..., Any] | None, Part | None]:
        """A function that is watched, if all that it does is what a kernel could."""
        if id(function) not in self.functions:
            self.functions[id(function)] = (function, *self.traced(function))
        return self.functions[id(function)][1:]

    def traced(self, function: types.FunctionType) -> tuple[Callable[..., Any] | None, Part | None]:
        parameters = list(inspect.signature(function).parameters.values())
        needed = [one.name for one in parameters if one.default is one.empty]
        if any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters) or not needed:
            return None, None
        try:
            # With the defaults of the others.
            names: dict[str, Any] = {"function": function}
            exec(f"def plain({', '.join(needed)}): return function({', '.join(needed)})", names)
            graph: torch.fx.Graph = torch.fx.Tracer().trace(names["plain"])
        except Exception:  # Code that cannot be traced is no part.
            return None, None
        steps = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        if not steps or not all(is_computed(node) for node in steps) or moves_nothing(steps):
            return None, None
        part = Part(len(self.found), function.__name__, graph, function)
        self.found.append(part)
        count = len(needed)

        def watched(*arguments: Any, **keywords: Any) -> Any:
            given = arguments[:count]
            if len(given) < count or keywords:
                return function(*arguments, **keywords)
            return self.called(part, given, lambda: function(*arguments))

        watched.__name__ = function.__name__
        return watched, part

    def watched(self, graph: torch.fx.Graph, nodes: list[torch.fx.Node], kind: str) -> Part | None:
        """Makes a graph call these nodes as one part."""
        order = {node: place for place, node in enumerate(graph.nodes)}
        inside = set(nodes)
        outer = sorted(
            {one for node in nodes for one in node.all_input_nodes if one not in inside}, key=order.__getitem__
        )
        results = [node for node in nodes if any(user not in inside for user in node.users)]
        last = max(outer, key=order.__getitem__)
        if any(order[user] <= order[last] for node in results for user in node.users if user not in inside):
            return None
        part = Part(len(self.found), snake(kind), *extracted(graph, nodes, outer, results))
        self.found.append(part)

        def called(*tensors: Any) -> Any:
            return self.called(part, tensors, lambda: part.own(*tensors))

        called.__name__, called.__module__, called.replaces = f"part_{part.number}", "profile", part.own  # pyright: ignore[reportFunctionMemberAccess]
        with graph.inserting_after(last):
            call = graph.call_function(called, tuple(outer))
        found = [call]
        if len(results) > 1:
            with graph.inserting_after(call):
                found = [graph.call_function(operator.getitem, (call, place)) for place in range(len(results))]
        for node, one in zip(results, found, strict=True):
            node.replace_all_uses_with(one, delete_user_cb=lambda user: user not in inside)
        for node in sorted(nodes, key=order.__getitem__, reverse=True):
            if not node.users:
                graph.erase_node(node)
        return part

    def called(self, part: Part, tensors: tuple[Any, ...], call: Callable[[], Any]) -> Any:
        """Calls a part, and counts what it moves or lets the profiler see it."""
        if not self.counts:
            with record_function(part.key()):
                return call()
        with Traffic() as traffic:
            found = call()
        part.calls += 1
        part.moved += traffic.bytes
        part.least += size(tensors) + size(found)
        if part.calls == 1 and all(isinstance(one, torch.Tensor) for one in tensors):
            part.tensors = [(list(one.shape), one.dtype) for one in tensors]
            part.results = [one.dim() for one in ((found,) if isinstance(found, torch.Tensor) else found)]
            four = [one for one in tensors if one.dim() == 4]
            part.swapped = bool(four) and all(is_swapped(one) for one in four)
        return found


def is_computed(node: torch.fx.Node) -> bool:
    """Whether a step is no call of a module or of a library."""
    if node.op not in ("call_function", "call_method") or hasattr(node.target, "replaces"):
        return False
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name not in LIBRARY and not name.startswith("conv")


def moves_nothing(nodes: list[torch.fx.Node]) -> bool:
    """Whether all of these steps are views."""
    names = [one.target if isinstance(one.target, str) else getattr(one.target, "__name__", "") for one in nodes]
    return all(name in VIEWS for name in names)


def components(graph: torch.fx.Graph) -> Iterator[list[torch.fx.Node]]:
    """Sets of steps that are computed together: connected, and with no call of a module or a library between them."""
    stages: dict[torch.fx.Node, int] = {}
    groups: dict[torch.fx.Node, set[torch.fx.Node]] = {}
    for node in graph.nodes:
        before = max((stages[one] for one in node.all_input_nodes), default=0)
        # A call that returns a tuple: to take an element of it computes nothing.
        takes = node.target is operator.getitem and node.all_input_nodes and node.all_input_nodes[0] not in groups
        if takes or node.op in ("placeholder", "get_attr", "output"):
            stages[node] = before
            continue
        if not is_computed(node):
            stages[node] = before + 1
            continue
        stages[node] = before
        group = {node}
        for one in node.all_input_nodes:
            if one in groups and stages[one] == before:
                group |= groups[one]
        for one in group:
            groups[one] = group
    seen: set[int] = set()
    for group in list(groups.values()):
        nodes = [node for node in graph.nodes if node in group]
        if id(group) not in seen and nodes and any(node.all_input_nodes for node in nodes) and not moves_nothing(nodes):
            seen.add(id(group))
            yield nodes


def owned(traced: Any) -> set[str]:
    """The submodules whose steps are in no set with steps of others."""
    mixed: set[str] = set()
    for nodes in components(traced.graph):
        owners = {traced.owners.get(node) for node in nodes}
        if len(owners) > 1:
            mixed |= {one for one in owners if one is not None}
    return set(traced.within) - mixed


def extracted(
    graph: torch.fx.Graph, nodes: list[torch.fx.Node], outer: list[torch.fx.Node], results: list[torch.fx.Node]
) -> tuple[torch.fx.Graph, Callable[..., Any]]:
    """Steps of a graph as a graph and a function of their own."""
    part = torch.fx.Graph()
    values: dict[torch.fx.Node, Any] = {}
    for node in outer:
        values[node] = part.placeholder(argument_name(node))
    for node in nodes:
        values[node] = part.node_copy(node, values.__getitem__)
    found = [values[node] for node in results]
    part.output(found[0] if len(found) == 1 else tuple(found))
    code = part.python_code("self")
    function = rewriting.function_of(code.src, dict(code.globals), "part")
    return part, lambda *tensors: function(None, *tensors)


def argument_name(node: torch.fx.Node) -> str:
    """The name of an argument of a part: that of the parameter, or of the submodule that returned the tensor."""
    if node.op == "get_attr":
        return str(node.target).rpartition(".")[2]
    if node.target is operator.getitem and node.all_input_nodes and isinstance(node.args[1], int):
        return f"{node.all_input_nodes[0].name}_{node.args[1]}"
    return node.name


def snake(kind: str) -> str:
    """The name of a class as names of functions are written."""
    found = ""
    for place, letter in enumerate(kind):
        before, after = kind[place - 1 : place], kind[place + 1 : place + 2]
        if letter.isupper() and place > 0 and (before.islower() or before.isdigit() or after.islower()):
            found += "_"
        found += letter.lower()
    return found.strip("_")
