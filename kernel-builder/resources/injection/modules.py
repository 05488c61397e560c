"""Modules without submodules that compute what an operation does.

They stay in the model with their parameters; each gets a `forward` of its own, which calls the kernel where it can, and the
module's own code elsewhere.
"""

import copy
import inspect
import itertools
import types
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .operation import LEADING, SCALES, TOLERANCE, Exact, Input, Operation, difference, drawn, serving
from .places import before, depth

#: Ways to bind a module's parameters that are tried.
_MOST_WAYS = 64


@dataclass(frozen=True)
class _Bound:
    """How a module calls the operation."""

    #: For each input but the first: the parameter or buffer and what is added to it; or None to leave it out, or ones.
    tensors: tuple[tuple[str, int] | str | None, ...]
    scalars: tuple[float | int | bool, ...]


@dataclass(frozen=True)
class Verdict:
    """Whether a module is replaced, and how."""

    bound: _Bound | None
    #: Numbers of axes with which module and operation agree, and the modes: training or not.
    ranks: frozenset[int]
    modes: frozenset[bool]
    #: Why it is not replaced; empty if nobody would expect it to be.
    reason: str


def is_candidate(operation: Operation) -> bool:
    """Whether one module can compute the operation: it takes one tensor and returns one."""
    return operation.results == 1


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Its own parameters and buffers."""
    return dict(itertools.chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False)))


def numbers(module: torch.nn.Module) -> dict[str, float | int | bool]:
    """The numbers that a module keeps, such as `eps`."""
    return {name: value for name, value in vars(module).items() if isinstance(value, float | int) and name != "training"}


def kind(module: torch.nn.Module) -> tuple | None:
    """A key: modules with the same one have the same verdict. None for modules that are never replaced."""
    if next(module.children(), None) is not None or isinstance(module, torch.jit.ScriptModule):
        return None
    if type(module).forward is torch.nn.Module.forward:
        return None
    return described(module)


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether something is called around the code of a module."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "_hf_hook" in vars(module))


def described(module: torch.nn.Module) -> tuple:
    """The class of a module, its tensors and what else it keeps."""
    shapes = tuple((name, tuple(one.shape), one.dtype, type(one)) for name, one in _tensors(module).items())
    others = tuple(sorted((name, repr(value)) for name, value in vars(module).items() if not name.startswith("_")))
    return (type(module), shapes, others)


def _called_with(module: torch.nn.Module) -> str | None:
    """The name of the only argument that a call of the module needs."""
    parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    named = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if not named or any(one.default is one.empty for one in named[1:]):
        return None
    return named[0].name


def values_of(name: str, default: float | int | bool, known: dict[str, float | int | bool]) -> list[float | int | bool]:
    """The values to try for a scalar: the number of the same name, other numbers of its type, and its default."""
    alike = {key: value for key, value in known.items() if type(value) is type(default)}
    ordered = [alike[name]] if name in alike else []
    ordered += [value for key, value in alike.items() if key != name]
    return list(dict.fromkeys([*ordered, default]))


def _ways(operation: Operation, module: torch.nn.Module) -> Iterator[_Bound]:
    """Every way in which the module may call the operation with all its parameters."""
    tensors, known = _tensors(module), numbers(module)

    def sources(wanted: Input) -> list[tuple[str, int] | str | None]:
        alike = [name for name, one in tensors.items() if one.dim() == len(wanted.axes)]
        alike.sort(key=lambda name: name != wanted.name)
        found: list[tuple[str, int] | str | None] = [(name, offset) for offset in (0, 1) for name in alike]
        if wanted.optional:
            found.append(None)
        elif wanted.axes == operation.inputs[0].axes[-1:] and not tensors:
            found.append("ones")
        return found

    others = operation.inputs[1:]
    choices = [sources(one) for one in others] + [values_of(*one, known) for one in operation.scalars]
    for chosen in itertools.islice(itertools.product(*choices), _MOST_WAYS):
        used = [source[0] for source in chosen[: len(others)] if isinstance(source, tuple)]
        if sorted(used) == sorted(tensors):
            yield _Bound(tuple(chosen[: len(others)]), tuple(chosen[len(others) :]))


def _given(bound: _Bound, module: torch.nn.Module, first: torch.Tensor) -> list[torch.Tensor | None]:
    """The tensors of a call beside the first one."""
    found: list[torch.Tensor | None] = []
    for source in bound.tensors:
        if source is None:
            found.append(None)
        elif source == "ones":
            found.append(_ones(first))
        else:
            tensor = getattr(module, source[0])
            found.append(tensor if source[1] == 0 else tensor + source[1])
    return found


#: Ones that were needed, by length, dtype and device.
_ONES: dict[tuple, torch.Tensor] = {}


def _ones(first: torch.Tensor) -> torch.Tensor:
    """A parameter that changes nothing."""
    if torch.compiler.is_compiling():
        return torch.ones(first.shape[-1], dtype=first.dtype, device=first.device)
    key = (first.shape[-1], first.dtype, first.device)
    if key in _ONES:
        return _ONES[key]
    # Kept for later calls, some of which may want a gradient.
    with torch.inference_mode(False):
        found = torch.ones(first.shape[-1], dtype=first.dtype, device=first.device)
    # A tensor that is made during the capture of a graph has no values until the graph runs.
    if type(first) in (torch.Tensor, torch.nn.Parameter) and not (first.is_cuda and torch.cuda.is_current_stream_capturing()):
        _ONES[key] = found
    return found


def verdict(operation: Operation, module: torch.nn.Module) -> Verdict:
    """Compares the module with the operation in every way that is possible."""
    nothing = _left("")
    if _called_with(module) is None:
        return nothing
    ways = list(_ways(operation, module))
    if not ways:
        return nothing
    odd = [name for name, one in _tensors(module).items() if type(one) not in (torch.Tensor, torch.nn.Parameter)]
    if odd:
        return _left(f"`{odd[0]}` is a {type(_tensors(module)[odd[0]]).__name__}")
    if any(one.is_meta for one in _tensors(module).values()):
        return _left("its parameters have no values yet (device meta)")
    try:
        twin = _twin(module)
    except Exception as error:  # A module may refuse to be copied for any reason.
        return _left(f"it cannot be copied: {_first_line(error)}")
    nearest = None
    for bound in ways:
        ranks, least = _agreement(operation, twin, bound)
        if ranks:
            rounded = [source for source in bound.tensors if isinstance(source, tuple) and source[1] != 0]
            if any(getattr(module, name).dtype != torch.float32 for name, _ in rounded):
                name = rounded[0][0]
                return _left(f"it adds 1 to `{name}`, and the sum would be rounded to {getattr(module, name).dtype}")
            # The other mode may compute something else, as batch normalisation does.
            twin.train(not module.training)
            same = ranks == _agreement(operation, twin, bound)[0]
            return Verdict(bound, ranks, frozenset({True, False} if same else {module.training}), "")
        if least is not None:
            nearest = least if nearest is None else min(nearest, least)
    # A difference says something only where a parameter was bound: any activation takes a tensor alone.
    if nearest is None or len(operation.inputs) == 1 or not _tensors(module):
        return nothing
    return _left(f"its results differ by {nearest:.1e} of the largest one")


def _left(reason: str) -> Verdict:
    return Verdict(None, frozenset(), frozenset(), reason)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _twin(module: torch.nn.Module) -> torch.nn.Module:
    """A copy on the processor in float64, with drawn parameters: those of a new model are all alike."""
    twin = type(module).__new__(type(module))
    # Without what stands around its own code.
    around = ("forward", "_old_forward", "_hf_hook")
    vars(twin).update({name: copy.deepcopy(value) for name, value in vars(module).items() if name not in around})
    twin.to(device="cpu", dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in _tensors(twin).values():
            if tensor.is_floating_point():
                tensor.copy_(drawn(tensor.shape, generator))
    return twin


def _agreement(operation: Operation, twin: torch.nn.Module, bound: _Bound) -> tuple[frozenset[int], float | None]:
    """The numbers of axes with which both agree, and the least difference with others."""
    lengths = dict(operation.fixed)
    for wanted, source in zip(operation.inputs[1:], bound.tensors, strict=True):
        if isinstance(source, tuple):
            lengths.update(zip(wanted.axes, getattr(twin, source[0]).shape, strict=True))
    generator = torch.Generator().manual_seed(1)
    agreed, least = set(), None
    for leading in LEADING if operation.leading else LEADING[:1]:
        shape = operation.shape(operation.inputs[0].axes, leading, lengths)
        differences = [_difference(operation, twin, bound, drawn(shape, generator, scale)) for scale in SCALES]
        known = [one for one in differences if one is not None]
        if len(known) == len(differences) and max(known) <= TOLERANCE:
            agreed.add(len(shape))
        elif known:
            least = max(known) if least is None else min(least, max(known))
    return frozenset(agreed), least


def _difference(operation: Operation, twin: torch.nn.Module, bound: _Bound, x: torch.Tensor) -> float | None:
    """How far both are apart; None if either takes no such input."""
    try:
        with torch.no_grad(), Exact():
            expected = type(twin).forward(twin, x.clone())
            found = operation.reference(x.clone(), *_given(bound, twin, x), *bound.scalars)
    except Exception:  # Whatever either says of an input that it does not take.
        return None
    return difference(expected, found) if isinstance(expected, torch.Tensor) else None


def replacement(operation: Operation, module: torch.nn.Module, verdict: Verdict) -> types.FunctionType:
    """A `forward` that calls the operation. It becomes a method, so that a copy of the module calls its own."""
    bound, ranks, modes, name = verdict.bound, verdict.ranks, verdict.modes, _called_with(module)
    assert bound is not None and name is not None
    call, scalars, serves = operation.call, bound.scalars, serving(operation)
    # Looked up once: a call should take little time on the host.
    names = [source[0] for source in bound.tensors if isinstance(source, tuple) and source[1] == 0]
    is_plain = len(names) == len(bound.tensors)
    own, level = type(module).forward, depth(module)

    def forward(self, *arguments, **keywords):
        if len(arguments) == 1 and not keywords:
            first = arguments[0]
        else:
            first = keywords.get(name) if len(keywords) == 1 and not arguments else None
        if isinstance(first, torch.Tensor) and first.dim() in ranks and self.training in modes:
            if is_plain:
                parameters, buffers = self._parameters, self._buffers
                tensors = [parameters[one] if one in parameters else buffers[one] for one in names]
            else:
                tensors = _given(bound, self, first)
            if serves((first, *tensors)):
                return call(first.contiguous(), *tensors, *scalars)
        kept = before(self, level)
        return own(self, *arguments, **keywords) if kept is None else kept(*arguments, **keywords)

    return forward
