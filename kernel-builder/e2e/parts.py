"""The parts of a model's code that a kernel could compute: what stands between products, convolutions and attention.

Owns: which parts there are, and what is counted of each. Never: decides whether a kernel is worth it; writes a file.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.fx
from torch.fx.node import map_arg
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from components import components, is_computed, moves_nothing, owned
from small_steps import LeftOut, duplicate, left_out, taking_others

# The modules that packages carry for `inject`: they trace the code of a model, and replace parts of it.
blocks: Any = importlib.import_module("inject.blocks")
places: Any = importlib.import_module("inject.places")
rewriting: Any = importlib.import_module("inject.rewriting")
tracing: Any = importlib.import_module("inject.trace")


@dataclass
class Part:
    """A part of the code of some modules, and what was seen of it."""

    number: int
    #: What people call it, such as `qwen3_mlp`.
    name: str
    #: The part as steps.
    graph: torch.fx.Graph
    own: Callable[..., Any]
    #: Its steps in the code of the module, by name, and the code.
    steps: list[str] = field(default_factory=list)
    code: Any = None
    #: The classes that have it, with how many modules of each.
    classes: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    #: Shapes and dtypes of a call's tensors; None where one of them is no tensor.
    tensors: list[tuple[list[int], torch.dtype]] | None = None
    #: Whether the second and third axis of the tensors of four axes are swapped, as those of heads are before attention.
    swapped: bool = False
    #: For each result, whether its second and third axis are swapped likewise.
    results: list[bool] = field(default_factory=list)
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

    def __init__(self, model: torch.nn.Module, left: dict[Any, LeftOut] | None = None) -> None:
        self.model = model
        #: Steps to be left out, for each code of a module. In the first call, those of each part are found.
        self.left = {} if left is None else left
        self.finds_small = left is None
        self.found: list[Part] = []
        self.counts = True
        self.known: dict[Any, tuple[types.FunctionType, list[Part]] | None] = {}
        self.changed: list[torch.nn.Module] = []
        #: Functions that are watched, and the classes whose code calls them.
        self.functions: dict[int, tuple[Any, Callable[..., Any], dict[str, int]]] = {}

    def __enter__(self) -> Parts:
        modules: list[Any] = list(self.model.modules())
        for module in modules:
            inner = places.code_of(module)
            if isinstance(module, torch.jit.ScriptModule) or inner is None:
                continue
            kind = type(module).__name__
            found = self.of_module(module, inner)
            outer = None if found is None else places.decorated(places.current(module), found[0])
            if found is not None and outer is not None:
                for part in found[1]:
                    part.classes[kind] = part.classes.get(kind, 0) + 1
            kinds: dict[str, type] = {}
            for place, call in places.helpers(module, inner).items():
                helper = cast("type", getattr(module, place).__class__)
                other = self.of_functions(call, helper.__name__)
                if other is not None:
                    kinds[place] = places.calling(helper, other)
            if outer is not None or kinds:
                places.put(module, outer, "profile", kinds)
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
            return self.of_traced(module, inner, tracing.trace(module, inner, set[Any]()))
        except tracing.Unclear:
            changed: list[tuple[Any, types.FunctionType]] = []
            parts: list[Part] = []
            for block, traced in blocks.blocks(module, inner, set[Any]()):
                with contextlib.suppress(tracing.Unclear):
                    found = self.of_traced(module, block.function, traced, whole=False)
                    if found is not None:
                        changed.append((block, found[0]))
                        parts.extend(found[1])
            code = blocks.joined(inner, changed) if changed else inner
            other = self.of_functions(code, kind.__name__)
            return (other or code, parts) if changed or other is not None else None

    def of_traced(
        self, module: Any, inner: types.FunctionType, traced: Any, *, whole: bool = True
    ) -> tuple[types.FunctionType, list[Part]] | None:
        """Traced code of a module with its parts watched, and these; None without any.

        If the code is not the `whole` of a module's, calls of functions are left out: `of_functions` finds them.
        """
        kind: Any = module.__class__
        key: tuple[Any, ...] = (inner, str(traced.graph), kind)
        if key in self.known:
            return self.known[key]
        alone = owned(traced)
        if alone:
            # A part that lies in one submodule is found when that submodule is looked at.
            others = {module.get_submodule(name) for name in traced.within if name in alone}
            traced = tracing.trace(module, inner, others)
        fold_shapes(module, traced.graph)
        left = self.left.get(key, LeftOut())
        small = duplicate(traced.graph, left)
        found = [one for one in components(traced.graph, small, left.apart) if whole or not is_call(traced, one)]
        parts = [self.watched(traced.graph, nodes, kind.__name__) for nodes in found]
        kept = [part for part in parts if part is not None]
        for part in kept:
            part.code = key
        self.known[key] = (rewriting.compiled(traced, inner), kept) if kept else None
        return self.known[key]

    def of_functions(self, inner: types.FunctionType, kind: str) -> types.FunctionType | None:
        """Code of a class that is not traced, with the functions watched that it calls; None without any."""
        found: dict[str, Callable[..., Any]] = {}
        for name in inner.__code__.co_names:
            function = inner.__globals__.get(name)
            if not isinstance(function, types.FunctionType) or str(function.__module__).startswith("torch."):
                continue
            if id(function) not in self.functions:
                classes: dict[str, int] = {}
                self.functions[id(function)] = (function, self.of_function(function, classes), classes)
            _, found[name], classes = self.functions[id(function)]
            classes[kind] = classes.get(kind, 0) + 1
        return places.with_names(inner, found) if found else None

    def of_function(self, function: types.FunctionType, classes: dict[str, int]) -> Callable[..., Any]:
        """A function that is a part for each kind of call in which all that it does is what a kernel could."""
        signature = inspect.signature(function)
        known: dict[tuple[Any, ...], Part | None] = {}

        def watched(*arguments: Any, **keywords: Any) -> Any:
            given = arranged(signature, arguments, keywords)
            if given is None:
                return function(*arguments, **keywords)
            if given.form not in known:
                known[given.form] = self.traced(function, given, classes)
            part = known[given.form]
            if part is None:
                return function(*arguments, **keywords)
            return self.called(part, tuple(given.tensors.values()), lambda: function(*arguments, **keywords))

        watched.__name__ = function.__name__
        return watched

    def traced(self, function: types.FunctionType, given: Arranged, classes: dict[str, int]) -> Part | None:
        """The part that a call of a function is; None if it does something else, too."""
        try:
            names: dict[str, Any] = {"function": function}
            exec(f"def plain({', '.join(given.tensors)}): return function({given.text})", names)
            graph: torch.fx.Graph = Following(given.tensors).trace(names["plain"])
        except Exception:  # Code that cannot be traced is no part.
            return None
        steps = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        if not steps or not all(is_computed(node) for node in steps) or moves_nothing(steps):
            return None
        self.found.append(Part(len(self.found), function.__name__, graph, function, classes=classes))
        return self.found[-1]

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
        names = [node.name for node in nodes]
        part = Part(len(self.found), snake(kind), *extracted(graph, nodes, outer, results), names)
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
        if part.calls == 1 and not all(isinstance(one, torch.Tensor) for one in tensors):
            if self.finds_small and part.steps:
                known = self.left.setdefault(part.code, LeftOut())
                known.apart |= taking_others(part.graph, tensors, part.steps)
        elif part.calls == 1:
            part.tensors = [(list(one.shape), one.dtype) for one in tensors]
            four = [one for one in tensors if one.dim() == 4]
            part.swapped = bool(four) and all(is_swapped(one) for one in four)
            results = (found,) if isinstance(found, torch.Tensor) else found
            part.results = [one.dim() == 4 and (part.swapped or is_swapped(one)) for one in results]
            if self.finds_small and part.steps:
                found_here = left_out(part.graph, tensors, part.steps)
                if found_here.steps:
                    known = self.left.setdefault(part.code, LeftOut())
                    known.steps |= found_here.steps
                    known.shared |= found_here.shared
        return found


class Following(torch.fx.Tracer):
    """Traces a function, and knows the value of each step in a call, so that shapes have as many lengths as there."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.tensors = tensors
        self.values: dict[torch.fx.Node, Any] = {}

    def proxy(self, node: torch.fx.Node) -> torch.fx.Proxy:
        """The value of a step while the function is traced."""
        arguments: Any = map_arg(node.args, self.values.__getitem__)
        keywords: Any = map_arg(node.kwargs, self.values.__getitem__)
        target: Any = node.target
        if node.op == "placeholder":
            self.values[node] = self.tensors[target]
        elif node.op == "call_method":
            self.values[node] = getattr(arguments[0], target)(*arguments[1:], **keywords)
        elif node.op == "call_function":
            self.values[node] = target(*arguments, **keywords)
        return Sized(node, self)


class Sized(torch.fx.Proxy):
    """A step whose shape can be taken apart: `*x.shape[:-1]`."""

    def __getattr__(self, name: str) -> Any:
        tracer: Any = self.tracer
        value: Any = tracer.values.get(self.node)
        if name == "shape" and isinstance(value, torch.Tensor):
            return tuple(self.size(axis) for axis in range(value.dim()))
        return super().__getattr__(name)


@dataclass(frozen=True)
class Arranged:
    """The arguments of a call of a function."""

    #: The tensors by name. Those of a tuple have the names of the parameter with a number.
    tensors: dict[str, torch.Tensor]
    #: The arguments as text, with these names.
    text: str
    #: What calls of the same kind have in common: where the tensors are, and what the other arguments are.
    form: tuple[Any, ...]


def arranged(signature: inspect.Signature, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Arranged | None:
    """The arguments of a call of tensors, tuples of tensors, and constants; None if it has others."""
    try:
        bound = signature.bind(*arguments, **keywords).arguments
    except TypeError:
        return None
    tensors: dict[str, torch.Tensor] = {}
    words: list[str] = []
    form: list[Any] = []
    for name, value in bound.items():
        if isinstance(value, torch.Tensor):
            tensors[name] = value
            words.append(f"{name}={name}")
            form.append((name, None))
        elif isinstance(value, tuple | list):
            parts = cast("tuple[Any, ...]", value)
            if not parts or not all(isinstance(one, torch.Tensor) for one in parts):
                return None
            inside: dict[str, torch.Tensor] = {f"{name}_{place}": one for place, one in enumerate(parts)}
            tensors |= inside
            words.append(f"{name}=({', '.join(inside)},)")
            form.append((name, len(inside)))
        elif value is None or isinstance(value, bool | int | float | str):
            words.append(f"{name}={value!r}")
            form.append((name, "constant", type(value), value))
        else:
            return None
    return Arranged(tensors, ", ".join(words), tuple(form)) if tensors else None


def is_call(traced: Any, nodes: list[torch.fx.Node]) -> bool:
    """Whether steps are a call of one function, but for views."""
    called = {traced.functions.get(node) for node in nodes if not moves_nothing([node])}
    return len(called) == 1 and None not in called


def fold_shapes(module: Any, graph: torch.fx.Graph) -> None:
    """Replaces the lengths of the module's own tensors by numbers: a part that asks for one does not need the tensor."""
    for node in list(graph.nodes):
        whole: Any = node.args[0] if node.args else None
        last: Any = node.args[-1] if node.args else None
        is_own = isinstance(whole, torch.fx.Node) and whole.op == "get_attr"
        if node.target is getattr and is_own and last == "shape":
            lengths: list[int] = list(operator.attrgetter(str(whole.target))(module).shape)
            for user in list(node.users):
                place: Any = user.args[1] if user.target is operator.getitem else None
                if isinstance(place, int):
                    constant(user, lengths[place])
            if not node.users:
                graph.erase_node(node)
        elif node.op == "call_method" and node.target == "size" and is_own and isinstance(last, int):
            constant(node, operator.attrgetter(str(whole.target))(module).shape[last])


def constant(node: torch.fx.Node, value: int) -> None:
    """Replaces a step by a number."""

    def instead(one: torch.fx.Node) -> Any:
        return value if one is node else one

    users: list[Any] = list(node.users)
    for user in users:
        user.args = map_arg(user.args, instead)
        user.kwargs = map_arg(user.kwargs, instead)
    node.graph.erase_node(node)


def extracted(
    graph: torch.fx.Graph, nodes: list[torch.fx.Node], outer: list[torch.fx.Node], results: list[torch.fx.Node]
) -> tuple[torch.fx.Graph, Callable[..., Any]]:
    """Steps of a graph as a graph and a function of their own."""
    part = torch.fx.Graph()
    values: dict[torch.fx.Node, Any] = {}
    names = [argument_name(node) for node in outer]
    for node, name in zip(outer, names, strict=True):
        values[node] = part.placeholder(name if names.count(name) == 1 else node.name)
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
    if moves_nothing([node]) and isinstance(node.args[0], torch.fx.Node):
        return argument_name(node.args[0])
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
