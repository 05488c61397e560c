"""An operation of this package as a model may contain it, and how code of a model is compared with it.

Code of a model and the operation's reference must agree in float64, on drawn values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: Dtypes that count as float64 while code is compared with a reference.
_ROUNDED = (torch.float32, torch.float16, torch.bfloat16)
#: The most a result may differ from the reference, as a share of the largest result.
TOLERANCE = 1e-10
#: Leading axes that are tried, and lengths of axes that no parameter decides.
LEADING = ((), (2,), (2, 3), (2, 3, 4))
LENGTHS = (24, 6, 10, 14, 18)
#: Sizes of drawn values.
SCALES = (1.0, 1e-3, 1e3)


@dataclass(frozen=True)
class Input:
    """A tensor of the operation."""

    name: str
    #: The names of its axes.
    axes: tuple[str, ...]
    optional: bool


@dataclass(frozen=True)
class Operation:
    """An operation whose tensors have one dtype."""

    name: str
    #: Takes the tensors and the scalars in order.
    call: Callable
    #: The same in PyTorch, exact in float64.
    reference: Callable
    inputs: tuple[Input, ...]
    #: How many tensors it returns: one, or a tuple of several.
    results: int
    #: With `leading`, the first axis of the first input stands for any number of axes.
    leading: bool
    #: Axes whose length never changes.
    fixed: dict[str, int]
    #: Of other axes, the least length that is more than 1, and what lengths are a multiple of.
    limits: dict[str, tuple[int, int]]
    #: Scalars with their defaults.
    scalars: tuple[tuple[str, float | int | bool], ...]
    #: Dtypes that the tensors may have.
    dtypes: frozenset[torch.dtype]
    differentiable: bool
    #: Types of device that this build has a kernel for.
    devices: frozenset[str]

    def is_leading(self, axes: tuple[str, ...]) -> bool:
        """Whether the first of these axes stands for any number."""
        return self.leading and axes[:1] == self.inputs[0].axes[:1]

    def shape(self, axes: tuple[str, ...], leading: tuple[int, ...], lengths: dict[str, int]) -> tuple[int, ...]:
        """The shape of a tensor with these axes. Axes that have no length yet get one."""
        tail = axes[1:] if self.is_leading(axes) else axes
        for axis in tail:
            if axis not in lengths:
                used = set(lengths.values())
                least, multiple = self.limits.get(axis, (1, 1))
                found = next((one for one in LENGTHS if one not in used), 5)
                lengths[axis] = self.fixed.get(axis) or -(-max(found, least) // multiple) * multiple
        found = tuple(lengths[axis] for axis in tail)
        return leading + found if self.is_leading(axes) else found

    def returned(self, found) -> list[torch.Tensor]:
        """The results of a call as a list."""
        return [found] if isinstance(found, torch.Tensor) else list(found)


def serving(operation: Operation) -> Callable[[Sequence[torch.Tensor | None]], bool]:
    """A function that says whether the kernel takes some tensors. It is called at each call of a model, so it is quick."""
    dtypes, devices, differentiable = operation.dtypes, operation.devices, operation.differentiable
    is_grad_enabled = torch.is_grad_enabled

    def serves(tensors: Sequence[torch.Tensor | None]) -> bool:
        first = tensors[0]
        if not isinstance(first, torch.Tensor):
            return False
        dtype, device = first.dtype, first.device
        if dtype not in dtypes or device.type not in devices:
            return False
        for one in tensors:
            if one is not None and (one.dtype != dtype or one.device != device):
                return False
        if differentiable or not is_grad_enabled():
            return True
        for one in tensors:
            if one is not None and one.requires_grad:
                return False
        return True

    return serves


def fitting(operation: Operation, axes: list[tuple[str, ...]]) -> Callable[[Sequence[torch.Tensor]], bool]:
    """A function that says whether tensors with these axes have lengths that the kernel takes: the same for axes of one name.

    It is one expression, since it is called at each call of a model.
    """
    terms: list[str] = []
    known: dict[str, str] = {}
    leading = None
    for place, names in enumerate(axes):
        shape, tail = f"shape_{place}", names[1:] if operation.is_leading(names) else names
        if names in axes[:place]:
            terms.append(f"{shape} == shape_{axes.index(names)}")
            continue
        if operation.is_leading(names):
            found = f"{shape}[:len({shape}) - {len(tail)}]"
            terms.append(f"len({shape}) >= {len(tail)}")
            terms += [] if leading is None else [f"{found} == {leading}"]
            leading = leading or found
        else:
            terms.append(f"len({shape}) == {len(tail)}")
        for number, axis in enumerate(tail):
            length = f"{shape}[{number - len(tail)}]"
            if axis in operation.fixed:
                terms.append(f"{length} == {operation.fixed[axis]}")
            elif axis in known:
                terms.append(f"{length} == {known[axis]}")
            else:
                known[axis] = length
    for axis, (least, multiple) in operation.limits.items():
        if axis in known:
            terms += [f"{known[axis]} >= {least}", f"{known[axis]} % {multiple} == 0"]
    arguments = ", ".join(f"shape_{place}" for place in range(len(axes)))
    fits = eval(f"lambda {arguments}: {' and '.join(terms)}")
    return lambda tensors: fits(*[one.shape for one in tensors])


class Exact(TorchDispatchMode):
    """Computes in float64 what code would round to a smaller dtype in between."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in _ROUNDED:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


def drawn(shape: tuple[int, ...], generator: torch.Generator, scale: float = 1.0) -> torch.Tensor:
    """A tensor of float64 on the processor."""
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def difference(expected: torch.Tensor, found: torch.Tensor) -> float | None:
    """The largest difference as a share of the largest result; None between tensors that cannot be compared."""
    if expected.shape != found.shape or expected.dtype != torch.float64:
        return None
    if expected.numel() == 0:
        return 0.0
    found = float((expected - found.double()).abs().max() / expected.abs().max().clamp_min(1e-300))
    return found if found == found else None
