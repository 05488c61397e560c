"""The code of a module as a graph, with the submodules that hold matrices as black boxes.

A trace has one way through the code. Code that may take another one with other arguments, or that does more than it returns, is
not traced.
"""

import dis
import inspect
import itertools
import operator
import os
import sys
import types
from dataclasses import dataclass

import torch
import torch.fx

from .modules import has_hooks

#: Names in code that do not show in a trace what they decide or change.
_OPAQUE_NAMES = frozenset(
    {
        "training",
        "isinstance",
        "issubclass",
        "type",
        "hasattr",
        "getattr",
        "setattr",
        "callable",
        "locals",
        "print",
        "append",
        "extend",
        "insert",
        "update",
        "setdefault",
        "pop",
        "clear",
        "checkpoint",
        "register_buffer",
    }
)
#: The beginnings of instructions of that kind.
_OPAQUE_STEPS = (
    "STORE_ATTR",
    "STORE_GLOBAL",
    "STORE_SUBSCR",
    "DELETE_",
    "BEFORE_WITH",
    "SETUP_WITH",
    "LOAD_SPECIAL",
    "SETUP_FINALLY",
    "YIELD",
    "SEND",
    "INPLACE_",
)
#: The name by which `**keywords` are handed on as a whole.
REST = "__rest__"
_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: The beginning of the names of files that exist in memory only.
INJECTED = "<inject "


class Unclear(Exception):
    """Code whose trace may not say all that it does."""


@dataclass
class Traced:
    """The code of a module as a graph."""

    graph: torch.fx.Graph
    #: The submodules whose code is part of it, by name.
    within: dict[str, type]
    #: The submodule that a step belongs to, where it does to one of these.
    owners: dict[torch.fx.Node, str]


def _is_clear(code: types.CodeType) -> bool:
    """Whether a trace of this code says all that it does, whatever its arguments."""
    if not _OPAQUE_NAMES.isdisjoint(code.co_names):
        return False
    steps = list(dis.get_instructions(code))
    for place, step in enumerate(steps):
        if step.opname.startswith(_OPAQUE_STEPS):
            return False
        if step.opname == "BINARY_OP" and step.argrepr.endswith("="):
            return False
        if (step.opname == "IS_OP" or "_NONE" in step.opname) and not _asks_for_own(code, steps[:place]):
            return False
    return _hands_on_keywords(code)


def _asks_for_own(code: types.CodeType, steps: list[dis.Instruction]) -> bool:
    """Whether these steps end with `self.NAME`, or with that and None: what a module has of its own is known."""
    if steps and steps[-1].opname == "LOAD_CONST":
        steps = steps[:-1]
    if len(steps) < 2 or steps[-1].opname != "LOAD_ATTR" or not steps[-2].opname.startswith("LOAD_FAST"):
        return False
    return code.co_varnames[:1] == (steps[-2].argval,) == ("self",)


def _hands_on_keywords(code: types.CodeType) -> bool:
    """Whether `**keywords` of a function, if it has them, are only handed on as a whole."""
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return True
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount + has_rest]
    steps = list(dis.get_instructions(code))
    for step, following in itertools.pairwise([*steps, steps[-1]]):
        used = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if name in used and (used[-1] != name or following.opname not in ("DICT_MERGE", "CALL_FUNCTION_EX")):
            return False
    return True


def is_plain(module: torch.nn.Module) -> bool:
    """Whether a submodule is traced as part of the code that calls it: it has no matrices, and nothing around its code."""
    if next(module.children(), None) is not None or has_hooks(module):
        return False
    if any(one.dim() > 1 for one in module.parameters(recurse=False)):
        return False
    instead = vars(module).get("forward")
    if instead is not None and not hasattr(instead, "injected"):
        return False
    own = type(module).forward
    return isinstance(own, types.FunctionType) and not hasattr(own, "__wrapped__") and _is_clear(own.__code__)


def _key(code: types.CodeType) -> tuple[str, int, str]:
    return (code.co_filename, code.co_firstlineno, code.co_name)


class _Tracer(torch.fx.Tracer):
    """Records the code of a module."""

    def __init__(self, left: set[torch.nn.Module]) -> None:
        super().__init__()
        self.left = left
        self.within: dict[str, type] = {}
        self.owners: dict[torch.fx.Node, str] = {}
        self.entered: list[str] = []
        #: Code that was looked at, and the names that it is known by.
        self.seen: set[tuple[str, int, str]] = set()
        self.is_clear = True

    def is_leaf_module(self, m, module_qualified_name):
        if m in self.left or not is_plain(m):
            return True
        self.within[module_qualified_name] = type(m)
        self.seen.add(_key(type(m).forward.__code__))
        return False

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        given, named = [], {}
        for one in list(inspect.signature(root_fn).parameters.values())[1:]:
            default = () if one.default is one.empty else (one.default,)
            if one.kind is one.VAR_POSITIONAL:
                raise Unclear
            if one.kind is one.VAR_KEYWORD:
                named[REST] = self.create_proxy("placeholder", f"**{one.name}", (), {})[REST]
            elif one.kind is one.KEYWORD_ONLY:
                named[one.name] = self.create_proxy("placeholder", one.name, default, {})
            else:
                given.append(self.create_proxy("placeholder", one.name, default, {}))
        return lambda: root_fn(self.root, *given, **named), []

    def call_module(self, m, forward, args, kwargs):
        self.entered.append(self.path_of_module(m))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.entered.pop()

    def create_node(self, *args, **kwargs):
        node = super().create_node(*args, **kwargs)
        if self.entered and node.op != "call_module":
            self.owners[node] = self.entered[-1]
        return node

    def create_arg(self, a):
        if isinstance(a, torch.Tensor):
            known = itertools.chain(self.root.named_parameters(), self.root.named_buffers())
            if not any(a is one for _, one in known):
                raise Unclear
        return super().create_arg(a)

    def see(self, frame, event, _argument):
        """Looks at every function that the code calls, and those that these call."""
        code = frame.f_code
        if event != "call" or frame.f_back is None or _key(frame.f_back.f_code) not in self.seen:
            return
        if code.co_filename.startswith((_TORCH, _HERE, INJECTED)) or _key(code) in self.seen:
            return
        self.seen.add(_key(code))
        self.is_clear = self.is_clear and _is_clear(code)


def trace(module: torch.nn.Module, inner: types.FunctionType, left: set[torch.nn.Module]) -> Traced:
    """Traces `inner`, a function of the module. Modules in `left` are black boxes.

    Raises:
        Unclear: if the trace may not say all that the code does.
    """
    if not inner.__code__.co_filename.startswith(INJECTED) and not _is_clear(inner.__code__):
        raise Unclear
    # The tracer calls the `forward` of the class.
    shell = object.__new__(type(type(module).__name__, (type(module),), {"forward": inner}))
    object.__setattr__(shell, "__dict__", vars(module))
    tracer = _Tracer(left)
    tracer.seen.add(_key(inner.__code__))
    profiler = sys.getprofile()
    sys.setprofile(tracer.see)
    try:
        graph = tracer.trace(shell)
    except Exception as error:  # Code that cannot be traced is left as it is.
        raise Unclear from error
    finally:
        sys.setprofile(profiler)
    if not tracer.is_clear or any(_writes(node) for node in graph.nodes):
        raise Unclear
    for node in graph.nodes:
        is_rest = any(one.op == "placeholder" and one.target.startswith("*") for one in node.all_input_nodes)
        if is_rest and not (node.target is operator.getitem and node.args[1:] == (REST,)):
            raise Unclear
        if REST in node.kwargs and node.op != "call_module":
            raise Unclear
    return Traced(graph, tracer.within, tracer.owners)


def _writes(node: torch.fx.Node) -> bool:
    """Whether a step changes one of its tensors."""
    if node.op not in ("call_function", "call_method"):
        return False
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if (name.endswith("_") and not name.endswith("__")) or node.kwargs.get("out") is not None:
        return True
    given = dict(node.kwargs)
    try:
        given |= inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments
    except (TypeError, ValueError):  # Functions in C have no signature, and none of them takes `inplace`.
        pass
    return bool(given.get("inplace"))
