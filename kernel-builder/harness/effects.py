"""Compares the side effects of a user's function and a template, as a caller sees them.

Owns: parameters that no template takes, writes, aliases, gradients, training, the form of what is returned. Never: decides what
fits, looks for calls.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

from calls import DRAWN, FLOATS, deviation, flat, halved, usual, widened
from casting import cast_to
from protocol_trace import Form
from variations import is_known, others, reads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from torch import Tensor

    from calls import Lengths, Numbers, Reference
    from subject import Subject

# How far a gradient may be from the template's, in parts of the largest of its row.
NEAR = 1e-7
# Values tried per parameter when two parameters change together.
FEW = 3


def same(torch: ModuleType, one: Any, other: Any) -> bool:
    """Whether two values of results are the same, dtypes and NaN included."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and one == other
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool(((one == other) | (one != one) & (other != other)).all())


def elements(torch: ModuleType, tensor: Tensor) -> set[int]:
    """The places of a tensor's elements in its storage."""
    places = torch.arange(tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1))
    return set(places.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).flatten().tolist())


def overlaps(torch: ModuleType, one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have an element of memory in common."""
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr() or not one.numel() or not other.numel():
        return False
    return bool(elements(torch, one) & elements(torch, other))


def dtype_name(dtype: object) -> str:
    """`bfloat16` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")


class Effects:
    """An attempt that is near, and what else its call does. `prepared` are the operation's scalars, the person's numbers and
    the lengths of the call."""

    def __init__(
        self,
        torch: ModuleType,
        subject: Subject,
        reference: Reference,
        form: Form,
        trial: dict[str, Any],
        prepared: tuple[Numbers, Numbers, Lengths],
    ) -> None:
        self.torch, self.subject = torch, subject
        self.reference, self.form, self.trial = reference, form, trial
        self.op = reference.op
        self.scalars, self.own, self.lengths = prepared
        self.order: list[str] = trial["order"]
        self.known: dict[tuple[str, Any], list[Any] | None] = {}
        self.shown = self.tensors(self.inputs("normal"))

    def seen(self) -> dict[str, Any]:
        """Everything for the report."""
        slots, parts = self.aliases()
        dtypes, failing = self.dtypes()
        return {
            "dtypes": dtypes,
            "failing": failing,
            "scattered": self.scattered(),
            "parameters": self.parameters(),
            "overwrites": self.overwrites(),
            "aliases": slots,
            "shared_results": parts,
            "gradients": self.gradients(),
            "training": self.training(),
            "written_state": self.written_state(),
            "returns": self.returns(),
            "made_with": self.subject.made_with,
        }

    def inputs(self, kind: str) -> dict[str, Tensor | None]:
        return self.reference.inputs(self.form, self.lengths, kind, self.scalars, 77)

    def tensors(self, inputs: dict[str, Tensor | None]) -> list[Tensor]:
        """Arguments for the user's function."""
        found = self.reference.arguments(self.form, inputs, self.lengths, self.scalars)
        return [self.split(one) for one in found]

    def split(self, tensor: Tensor) -> Tensor:
        first = self.lengths[self.op.axes[0].name]
        return halved(tensor, first) if self.trial["split"] else tensor

    def slot_of(self, name: str) -> str | None:
        """The person's parameter that is an input of the operation as it is."""
        arguments = self.form.arguments
        return self.order[arguments.index(name)] if name in arguments else None

    def call(self, tensors: Sequence[Tensor], changed: dict[str, Any] | None = None) -> Any:
        return self.subject.callable(self.order, self.own, changed)(*tensors)

    def mode(self, dtype: Any) -> AbstractContextManager[Any]:
        return widened(self.torch) if dtype == self.torch.float64 else usual(self.torch)

    # Parameters that no input and no scalar of the operation takes.

    def outcome(self, changed: dict[str, Any], kind: str, dtype: Any) -> list[Any] | None:
        """Results and arguments after a call with other values of some parameters; None where it fails."""
        torch = self.torch
        given = [cast_to(one, dtype).clone() for one in self.tensors(self.inputs(kind))]
        changed = self.subject.buffers_in(dtype, self.order) | changed
        torch.manual_seed(0)
        before = torch.get_rng_state(), random.getstate()
        try:
            with self.mode(dtype), torch.no_grad():
                returned = flat(self.call(given, changed))
        except Exception:
            return None
        self.drew = random.getstate() != before[1] or not torch.equal(torch.get_rng_state(), before[0])
        return [*returned, *given]

    def differs(self, changed: dict[str, Any]) -> bool | None:
        """Whether other values of parameters change anything; None where every such call fails."""
        torch, ran = self.torch, False
        runs = [*itertools.product(("normal", "wide"), (torch.float64, torch.float32)), ("normal", torch.bfloat16)]
        for kind, dtype in runs:
            copies = {key: one.clone() if isinstance(one, torch.Tensor) else one for key, one in changed.items()}
            if dtype == torch.bfloat16:
                copies |= {key: cast_to(one, dtype) for key, one in copies.items() if key in self.subject.buffers}
            wanted = self.baseline(kind, dtype)
            got = self.outcome(copies, kind, dtype)
            if got is None or wanted is None:
                continue
            ran = True
            if dtype == torch.bfloat16:
                # Values round differently; dtypes and shapes do not.
                if [self.form_of(one) for one in got] != [self.form_of(one) for one in wanted]:
                    return True
                continue
            held = [(one, copies[key]) for key, one in changed.items() if isinstance(one, torch.Tensor)]
            pairs = [*zip(got, wanted), *held]
            if len(got) != len(wanted) or not all(same(torch, *pair) for pair in pairs):
                return True
        return False if ran else None

    def form_of(self, value: Any) -> tuple[Any, Any]:
        is_tensor = isinstance(value, self.torch.Tensor)
        return (value.dtype, value.shape) if is_tensor else (type(value).__name__, None)

    def baseline(self, kind: str, dtype: Any) -> list[Any] | None:
        if (kind, dtype) not in self.known:
            self.known[kind, dtype] = self.outcome({}, kind, dtype)
        return self.known[kind, dtype]

    def parameters(self) -> list[dict[str, Any]]:
        """Each parameter that is left alone, and what comes of other values."""
        carried = set(self.order) | set(self.own)
        codes, words = self.subject.codes(), self.subject.words()
        found = [self.told(name, "passed-on") for name in self.subject.dropped if reads(codes, name)]
        open_ones: list[tuple[dict[str, Any], list[Any]]] = []
        shown = dict(zip(self.order, self.shown))
        for one in self.subject.slots() + [one for one in self.subject.parameters if one.kind != "tensor"]:
            if one.name in carried:
                continue
            is_buffer = one.name in self.subject.buffers
            value = self.subject.state[one.name] if is_buffer else self.subject.value_of(one, shown, self.own)
            values = others(self.torch, words, value, self.shown)
            outcomes = [(other, self.differs({one.name: other})) for other in values]
            changes = [other for other, differs in outcomes if differs]
            works = [other for other, differs in outcomes if differs is not None]
            row = self.told(one.name, "idle", value, one.pinned)
            found.append(row)
            if changes:
                row |= {"effect": "changes", "other": self.word(changes[0])}
            elif (len(works) < len(outcomes) and not is_known(self.torch, value)) or not outcomes:
                # A value that would work may be one that nobody thought of.
                row["effect"] = "unknown"
            else:
                row["effect"] = "idle" if len(works) == len(outcomes) else "only"
                # One that is given a value keeps it.
                open_ones += [] if one.pinned else [(row, works[:FEW])]
        for (first, values), (second, more) in itertools.combinations(open_ones, 2):
            if first["effect"] == second["effect"] == "changes":
                continue
            for one, other in itertools.product(values, more):
                if self.differs({first["name"]: one, second["name"]: other}):
                    first |= {"effect": "changes", "other": self.word(one)}
                    second |= {"effect": "changes", "other": self.word(other)}
                    break
        for row in found:
            if row["effect"] == "idle" and not row["buffer"] and not reads(codes, row["name"]):
                row["effect"] = "unread"
        return found

    def told(self, name: str, effect: str, value: Any = None, pinned: bool = False) -> dict[str, Any]:
        """A parameter for the report."""
        is_buffer, word = name in self.subject.buffers, None if effect == "passed-on" else self.word(value)
        return {"name": name, "effect": effect, "buffer": is_buffer, "value": word, "pinned": pinned, "other": None}

    def word(self, value: Any) -> str:
        """A value as Python writes it, shortly."""
        if isinstance(value, self.torch.Tensor):
            return f"a tensor of shape {list(value.shape)}"
        name = getattr(value, "__name__", None)
        return (name if callable(value) and name else repr(value))[:60]

    # Memory.

    def overwrites(self) -> list[dict[str, Any]]:
        """The person's arguments that the kernel overwrites, and whether the person's function leaves the same there."""
        torch = self.torch
        found: list[dict[str, Any]] = []
        for output, name in self.op.overwrites.items():
            slot = self.slot_of(name)
            if slot is None:
                continue
            alike = True
            for kind in ("normal", "wide"):
                inputs = self.inputs(kind)
                wanted = self.split(self.reference.outputs(inputs, self.scalars)[output])
                copies = [one.clone() for one in self.tensors(inputs)]
                with widened(torch), torch.no_grad():
                    self.call(copies)
                left = copies[self.order.index(slot)]
                alike = alike and deviation(torch, left, wanted) < NEAR
            found.append({"slot": slot, "input": name, "alike": alike})
        return found

    def aliases(self) -> tuple[list[dict[str, Any]], list[list[int]]]:
        """Results that share memory with an argument, where the kernel's does not or the other way round; and results that
        share memory with each other."""
        torch = self.torch
        texts: list[str] = self.form.results or self.op.outputs
        places: list[int] = self.trial["places"] or []
        found: list[dict[str, Any]] = []
        parts: list[list[int]] = []
        for dtype in (torch.float32, torch.bfloat16):
            copies = [cast_to(one, dtype).clone() for one in self.tensors(self.inputs("normal"))]
            try:
                with usual(torch), torch.no_grad():
                    got = flat(self.call(copies))
            except Exception:
                continue
            for number, (one, place) in enumerate(zip(got, places)):
                written = self.op.overwrites.get(texts[place])
                for slot, copy in zip(self.order, copies):
                    own, kernel = overlaps(torch, one, copy), written is not None and self.slot_of(written) == slot
                    row = {"result": number, "slot": slot, "own": own}
                    if own != kernel and row not in found:
                        found.append(row)
            for (first, one), (second, other) in itertools.combinations(enumerate(got), 2):
                if overlaps(torch, one, other) and [first, second] not in parts:
                    parts.append([first, second])
        return found, parts

    def scattered(self) -> list[int]:
        """The places of results that are not contiguous where the template's are."""
        torch, inputs = self.torch, self.inputs("normal")
        with widened(torch), torch.no_grad():
            got = flat(self.call([one.clone() for one in self.tensors(inputs)]))
            wanted = self.reference.results(self.form, inputs, self.lengths, self.scalars)
        pairs = enumerate(zip(got, self.trial["places"] or []))
        return [number for number, (one, place) in pairs if wanted[place].is_contiguous() and not one.is_contiguous()]

    def dtypes(self) -> tuple[list[list[Any]], list[list[str]]]:
        """The dtypes of the results, the person's and the template's, where they differ for a dtype of the operation; and
        the dtypes for which the person's function fails alone, with the error."""
        torch = self.torch
        other: list[list[Any]] = []
        failing: list[list[str]] = []
        for dtype in FLOATS:
            drawn = self.inputs("normal").items()
            inputs = {key: None if one is None else cast_to(one, dtype) for key, one in drawn}
            with usual(torch), torch.no_grad():
                try:
                    wanted = self.reference.results(self.form, inputs, self.lengths, self.scalars)
                except Exception:  # an operator that the host lacks for the dtype
                    continue
                try:
                    buffers = self.subject.buffers_in(dtype, self.order)
                    got = flat(self.call(self.tensors(inputs), buffers))
                except Exception as problem:
                    failing.append([dtype_name(dtype), f"{type(problem).__name__}: {problem}"[:300]])
                    continue
            for number, (one, place) in enumerate(zip(got, self.trial["places"] or [])):
                if one.dtype != wanted[place].dtype:
                    other.append([number, *map(dtype_name, (dtype, one.dtype, wanted[place].dtype))])
        return other, failing

    # Gradients.

    def gradients(self) -> dict[str, Any]:
        """Inputs whose gradients differ, or are there on one side only, by the person's parameter or module tensor."""
        found: dict[str, Any] = {"own": [], "kernel": [], "differs": [], "error": None}
        for kind in DRAWN:
            self.gradients_on(kind, found)
            if found["error"]:
                break
        return found

    def gradients_on(self, kind: str, found: dict[str, Any]) -> None:
        """The same on inputs of one kind, which adds to what was found."""
        torch, inputs = self.torch, self.inputs(kind)
        leaves = {
            name: one.requires_grad_()
            for name, one in inputs.items()
            if one is not None and one.is_floating_point() and name not in self.form.given
        }
        given = self.tensors(inputs)
        # Copies, since nothing may be written into a leaf.
        copies = [one.clone() for one in given]
        places: list[int] = self.trial["places"] or []
        try:
            with widened(torch):
                got = flat(self.call(copies))
                size = DRAWN[kind][0]
                weights = [size * torch.randn_like(one) if one.is_floating_point() else None for one in got]
                pairs = [(one, by) for one, by in zip(got, weights) if by is not None and one.requires_grad]
                own = self.differentiate([(one * by).sum() for one, by in pairs], [*given, *leaves.values()])
        except Exception as problem:
            found["error"] = f"{type(problem).__name__}: {problem}"[:300]
            return
        of_slots = dict(zip(self.order, own[: len(given)]))
        promised = [name for name in leaves if name in self.op.gradients]
        if kind == "normal":
            found["own"] = [slot for slot, one in of_slots.items() if one is not None]
            found["kernel"] = [slot for slot in of_slots if any(name in self.inputs_of(slot) for name in promised)]
        if not promised or not found["own"]:
            return
        with widened(torch):
            wanted = self.reference.results(self.form, inputs, self.lengths, self.scalars)
            wanted = [self.split(one) for one in wanted]
            terms = [(wanted[place] * by).sum() for place, by in zip(places, weights) if by is not None]
            theirs = self.differentiate(terms, list(leaves.values()))
        for name, one, other in zip(leaves, own[len(given) :], theirs):
            if name not in promised or any(name == row["input"] for row in found["differs"]):
                continue
            slots = [slot for slot in of_slots if name in self.inputs_of(slot)]
            one = torch.zeros_like(leaves[name]) if one is None else one
            other = torch.zeros_like(leaves[name]) if other is None else other
            # In a row with one value that is far above the others, gradients of a softmax are all rounding.
            apart = deviation(torch, one, other) if kind == "normal" else self.apart(one, other)
            if not apart < NEAR:
                found["differs"].append({"slots": slots, "input": name, "deviation": apart})

    def apart(self, one: Tensor, other: Tensor) -> float:
        """How far a gradient is from another, in parts of the largest of all rows."""
        return deviation(self.torch, one.flatten(), other.flatten())

    def differentiate(self, terms: list[Tensor], by: list[Tensor]) -> list[Tensor | None]:
        if not terms:
            return [None] * len(by)
        by_them = [one for one in by if one.requires_grad]
        found = iter(self.torch.autograd.grad(sum(terms), by_them, allow_unused=True))
        return [next(found) if one.requires_grad else None for one in by]

    def inputs_of(self, slot: str) -> set[str]:
        """The inputs of the operation that an argument is made of."""
        text = self.form.arguments[self.order.index(slot)]
        return {node for node in compile(text, "argument", "eval").co_names if node != "torch"}

    # The rest.

    def training(self) -> bool:
        """Whether a module computes the same in training."""
        if not self.subject.is_module:
            return True
        wanted = self.baseline("normal", self.torch.float64)
        self.subject.instance.train()
        try:
            got = self.outcome({}, "normal", self.torch.float64)
        finally:
            self.subject.settle()
        if got is None or wanted is None or len(got) != len(wanted):
            return False
        # With random numbers, equal results of two calls prove nothing about the next one.
        return not self.drew and all(same(self.torch, *pair) for pair in zip(got, wanted))

    def written_state(self) -> list[str]:
        """Parameters and buffers of a module that a call changes, in training or not."""
        if not self.subject.is_module:
            return []
        torch = self.torch
        found: list[str] = []
        before = {key: one.detach().clone() for key, one in self.subject.tensors().items()}
        for is_training, dtype in itertools.product((False, True), (torch.float64, torch.float32)):
            self.subject.instance.train(is_training)
            try:
                # With the module's own buffers: a write into others would not be seen.
                with self.mode(dtype), torch.no_grad():
                    self.call([cast_to(one, dtype).clone() for one in self.shown])
            except Exception:  # attempts.py reports calls that fail
                pass
            finally:
                self.subject.settle()
            after = self.subject.tensors()
            found += [key for key in after if key not in before or not same(torch, before[key], after[key])]
            self.subject.restore(before)
        return list(dict.fromkeys(found))

    def returns(self) -> str:
        """The type of what a call returns."""
        with widened(self.torch), self.torch.no_grad():
            value = self.call([one.clone() for one in self.tensors(self.inputs("normal"))])
        return "tensor" if isinstance(value, self.torch.Tensor) else type(value).__name__
