"""Every way to call a person's function as a form of a template, and what comes of it.

Owns: the order of the tries, the proof of one that is near. Never: decides what fits.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from calls import (
    DRAWN,
    FAR,
    HARD,
    MOST_HINTED,
    MOST_ORDERS,
    NEAR,
    PASSES,
    PLAUSIBLE,
    alike,
    deviation,
    flat,
    halved,
    lengths_of,
    placed,
    shapes,
    usual,
    widened,
)
from casting import cast_to
from effects import Effects
from graphs import graph_of, narrow, ops
from protocol_trace import Form, Operation, ScalarArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from torch import Tensor

    from calls import Changed, Lengths, Numbers, Reference
    from subject import Subject

    # How a scalar gets its value: `("is", value)`, or `("from", parameter)` of the person's.
    Way = dict[str, tuple[str, Any]]
    # An order of the parameters, another length, and the ways of the scalars; later what came of them.
    Trial = dict[str, Any]


def takes_each_once(way: Way) -> bool:
    """Whether no parameter of the person's gives two scalars their values."""
    taken = [value for what, value in way.values() if what == "from"]
    return len(set(taken)) == len(taken)


def split_first(reference: Reference, lengths: Lengths, split: bool, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors with one more leading axis than the operation has, if `split`."""
    first = lengths[reference.op.axes[0].name]
    return [halved(one, first) if split else one for one in tensors]


def without_casts(graph: dict[str, Any]) -> set[str]:
    """The operators of a graph but for those that convert to another dtype."""
    return set(ops(graph)) - {"_to_copy.default"}


#: Operators that no operation of a template has, without their library and overload.
LIBRARY = frozenset(("addmm", "baddbmm", "bmm", "convolution", "mm"))


def library_operator(torch: ModuleType, subject: Subject) -> str | None:
    """A product or a convolution that a module calls on the person's example; none if it does not run on shapes alone."""
    if not (subject.is_module and subject.example_values):
        return None
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[str] = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            found.append(func.name().split("::")[-1].split(".")[0])
            return func(*args, **(kwargs or {}))

    # An example of a gigabyte would take a minute; shapes are enough.
    shapes = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        example = {
            name: shapes.from_tensor(one) if isinstance(one, torch.Tensor) else one
            for name, one in subject.example_values.items()
        }
        with torch.no_grad(), shapes, Seen():
            subject.instance(**example)
    except Exception:  # the attempts say why it does not run
        return None
    return next((name for name in found if name in LIBRARY), None)


class Attempts:
    """Every way to call the person's function as a form of a template."""

    def __init__(self, torch: ModuleType, subject: Subject) -> None:
        self.torch, self.subject = torch, subject
        self.constants: dict[str, list[float]] = {}
        # The shapes of a call's arguments, by template, form, lengths and scalars.
        self.argument_shapes: dict[tuple[Any, ...], list[list[int]]] = {}
        # A search of all orders and lengths takes a minute for a module with large weights.
        self.library = library_operator(torch, subject)

    def numbers_of(self, op: Operation, fixed: Numbers, constants: list[float]) -> list[Way]:
        """The ways in which the operation's scalars get a value: a parameter of the person's, or a constant."""
        ways: list[list[tuple[str, Any]]] = []
        for scalar in op.scalars:
            name, kind = scalar.name, scalar.kind
            if name in fixed:
                ways.append([("is", fixed[name])])
                continue
            own = [one for one in self.subject.parameters if one.kind == kind]
            own.sort(key=lambda one: one.name != name)
            options: list[tuple[str, Any]] = [("from", one.name) for one in own]
            if kind == "bool":
                options += [("is", scalar.default), ("is", not scalar.default)]
            else:
                held = [scalar.default, *(one.value for one in own if one.value is not None)]
                seen = [one for one in constants if type(one) in ((float, int) if kind == "float" else (int,))]
                small = [float(one) for one in seen if 0 <= abs(one) < 1]
                seen = small if kind == "float" else [*self.subject.hints, *seen]
                options += [("is", value) for value in dict.fromkeys([*held, *seen])]
            ways.append(options)
        names = [scalar.name for scalar in op.scalars]
        chosen = [dict(zip(names, way)) for way in itertools.product(*ways)]
        return [way for way in chosen if takes_each_once(way)]

    @staticmethod
    def values_of(scalar: ScalarArgument, way: tuple[str, Any], turn: int) -> Any:
        """The value of a scalar: where it is a parameter of the person's, another one at another turn."""
        what, value = way
        if what == "is":
            return value
        default = scalar.default
        if scalar.kind == "bool":
            return bool(turn % 2) != default
        if scalar.kind == "int":
            return default if turn % 2 == 0 else 2
        return default if turn % 2 == 0 else 0.037

    def given(self, op: Operation, way: Way, turn: int) -> tuple[Numbers, Numbers]:
        """The operation's scalars, and the person's numbers, of one call."""
        scalars = {one.name: self.values_of(one, way[one.name], turn) for one in op.scalars}
        own = {value: scalars[name] for name, (what, value) in way.items() if what == "from"}
        return scalars, own

    def prepared(
        self, reference: Reference, form: Form, attempt: Trial, number: int, turn: int
    ) -> tuple[Numbers, Numbers, Lengths]:
        """The operation's scalars, the person's numbers and the lengths of one call; a module is made for the lengths."""
        scalars, own = self.given(reference.op, attempt["numbers"], turn)
        lengths = lengths_of(reference.op, number, attempt["changed"], scalars, form)
        if attempt.get("sized"):
            self.subject.resize(lengths[attempt["sized"]])
        return scalars, own, lengths

    def call(
        self, reference: Reference, form: Form, attempt: Trial, number: int, kind: str, turn: int, split: bool
    ) -> tuple[list[Any], list[Tensor], list[str], list[Tensor], Callable[..., Any]]:
        """The person's results and the wanted ones of one call; both in float64."""
        torch = self.torch
        scalars, own, lengths = self.prepared(reference, form, attempt, number, turn)
        names = attempt["order"]
        # Another order of the same tensors mostly fails by their shapes, and needs no values.
        key = (reference.name, reference.forms.index(form), split, *lengths.items(), *scalars.items())
        if key in self.argument_shapes:
            self.refuse_shapes(names, self.argument_shapes[key])
        inputs = reference.inputs(form, lengths, kind, scalars, 1000 * number + turn + len(kind))
        tensors = split_first(reference, lengths, split, reference.arguments(form, inputs, lengths, scalars))
        self.argument_shapes[key] = [list(one.shape) for one in tensors]
        self.refuse_shapes(names, self.argument_shapes[key])
        wanted = split_first(reference, lengths, split, reference.results(form, inputs, lengths, scalars))
        called = self.subject.callable(names, own)
        copies = [one.clone() for one in tensors]
        with torch.no_grad():
            got = flat(called(*copies))
        written = [name for name, copy, one in zip(names, copies, tensors) if not alike(torch, copy, one)]
        return got, wanted, written, copies, called

    def refuse_shapes(self, names: Sequence[str], shapes: list[list[int]]) -> None:
        """Raises ValueError where tensors of a module have other shapes, or those of the example another number of axes."""
        known = {**self.subject.example_shapes, **{key: list(one.shape) for key, one in self.subject.state.items()}}
        for name, shape in zip(names, shapes):
            if name in self.subject.state and known[name] != shape:
                raise ValueError(f"`{name}` has the shape {known[name]}")
            if name in self.subject.example_shapes and len(known[name]) != len(shape):
                raise ValueError(f"the example of `{name}` has {len(known[name])} axes")

    def orders(self, form: Form) -> list[tuple[str, ...]]:
        """The slots of the person's function in the order of the form's arguments; those without default all occur."""
        slots = self.subject.slots()
        count = len(form.arguments)
        needed = {one.name for one in slots if not one.optional}
        if count > len(slots) or count < len(needed):
            return []
        found = itertools.permutations([one.name for one in slots], count)
        fitting = (order for order in found if needed <= set(order))
        return list(itertools.islice(fitting, MOST_ORDERS))

    def changes(self, op: Operation, orders: int) -> list[Changed]:
        """Other lengths of an axis: those of the module or the example, and what numbers of the code divide or are."""
        free = [axis.name for axis in op.axes[1:] if axis.fixed is None]
        lengths = [one for one in dict.fromkeys(self.subject.lengths) if one > 1][:6]
        # Many orders take long, so numbers of the code are not tried as lengths then.
        hints = self.subject.hints if orders <= MOST_HINTED else []
        others: list[int | tuple[str, int]] = [("times", one) for one in hints]
        if self.subject.length_parameter is None:
            others = [*lengths, *others, *([] if lengths else hints)]
        unchanged: Changed = {}
        return [unchanged, *({name: one} for name in free for one in others)]

    def sizes(self, op: Operation) -> list[str | None]:
        """The axes that a module may be made for."""
        if self.subject.length_parameter is None:
            return [None]
        return [axis.name for axis in op.axes[::-1] if axis.fixed is None]

    def of(self, reference: Reference, form: Form) -> list[Trial]:
        """The attempts of a form that run, with their first deviation; the last error where none runs."""
        if self.library:
            return [{"error": f"it calls `{self.library}`, and no template does"}]
        torch, op = self.torch, reference.op
        found: list[Trial] = []
        error: str | None = None
        orders = self.orders(form)
        turns = itertools.product(orders, self.changes(op, len(orders)), self.sizes(op), (False, True))
        for order, changed, sized, split in turns:
            fixed = form.scalars
            default = {one.name: ("is", fixed.get(one.name, one.default)) for one in op.scalars}
            attempt = {"order": list(order), "changed": changed, "sized": sized, "numbers": default}
            try:
                with widened(torch):
                    got, wanted, *_, copies, called = self.call(reference, form, attempt, 0, "normal", 0, split)
                if placed(torch, got, wanted) is None:
                    raise ValueError(
                        f"the result has the shape {shapes(torch, got)}, and {shapes(torch, wanted)} is expected"
                    )
            except Exception as problem:
                error = error or f"{type(problem).__name__}: {problem}"[:300]
                continue
            # A constant of the person's own is looked for only where the default is not far off: it is an eps, mostly.
            apart = self.worst(got, wanted, placed(torch, got, wanted))
            kinds = {one.kind for one in op.scalars if one.name not in fixed}
            has_number = "int" in kinds or ("float" in kinds and apart < PLAUSIBLE)
            constants = self.constants_of(called, copies) if has_number else []
            for numbers in self.numbers_of(op, fixed, constants):
                trial: Trial = {**attempt, "numbers": numbers, "split": split}
                trial |= self.first(reference, form, trial)
                found.append(trial)
                # What the person's own numbers explain needs no constant.
                if trial["deviation"] < NEAR and all(what == "from" for what, _ in numbers.values()):
                    break
            # Where two inputs play the same part, which of them is written into decides.
            if any(one["deviation"] < NEAR and not self.writes_another(op, form, one) for one in found):
                break
        near = [one for one in found if one["deviation"] < NEAR]
        right = [one for one in near if not self.writes_another(op, form, one)]
        right = right or [one for one in near if one["order"] == near[0]["order"]]
        found = [one for one in found if one not in near] + right
        return found or [{"error": error or self.unequal(form)}]

    @staticmethod
    def writes_another(op: Operation, form: Form, trial: Trial) -> bool:
        """Whether the person's function writes into another argument than the kernel; false where one of them writes none."""
        slots = dict(zip(form.arguments, trial["order"]))
        kernel = {slots[name] for name in op.overwrites.values() if name in slots}
        return bool(kernel and trial["written"]) and kernel != set(trial["written"])

    def unequal(self, form: Form) -> str:
        slots = self.subject.slots()
        return f"it takes {len(slots)} tensors ({', '.join(one.name for one in slots)}), the call {len(form.arguments)}"

    def constants_of(self, called: Callable[..., Any], tensors: list[Tensor]) -> list[float]:
        """The numbers in the graph; those of the same shapes are looked up."""
        key = json.dumps([list(one.shape) for one in tensors])
        if key not in self.constants:
            try:
                with usual(self.torch):
                    graph = graph_of(self.torch, called, [narrow(self.torch, one) for one in tensors])
                self.constants[key] = graph["constants"]
            except Exception:  # what cannot be exported is told of the attempt that fits
                self.constants[key] = []
        return self.constants[key]

    def first(self, reference: Reference, form: Form, trial: Trial) -> Trial:
        """The deviation at the first inputs, with two values of every parameter."""
        worst = 0.0
        into: list[str] = []
        try:
            for turn in (0, 1):
                with widened(self.torch):
                    got, wanted, written, *_ = self.call(reference, form, trial, 0, "normal", turn, trial["split"])
                places = placed(self.torch, got, wanted)
                worst = max(worst, self.worst(got, wanted, places))
                into += written
        except Exception as problem:
            return {"deviation": FAR, "written": [], "problem": f"{type(problem).__name__}: {problem}"[:300]}
        return {"deviation": worst, "written": sorted(set(into))}

    def worst(self, got: list[Any], wanted: list[Tensor], places: list[int] | None) -> float:
        if places is None:
            return FAR
        return max(deviation(self.torch, one, wanted[place]) for one, place in zip(got, places))

    def prove(self, reference: Reference, form: Form, trial: Trial) -> dict[str, Any]:
        """Everything that is known of an attempt that was near at the first inputs."""
        torch = self.torch
        places: list[int] | None = None
        proof: list[dict[str, Any]] = []
        problems: list[str] = []
        graphs: list[dict[str, Any]] = []
        written_to: list[str] = []
        last: tuple[Callable[..., Any], list[Tensor]] | None = None
        for number in range(len(PASSES)):
            for kind in DRAWN:
                for turn in (0, 1):
                    try:
                        with widened(torch):
                            got, wanted, written, copies, called = self.call(
                                reference, form, trial, number, kind, turn, trial["split"]
                            )
                    except Exception as problem:
                        problems.append(f"{type(problem).__name__}: {problem}"[:300])
                        proof.append({"pass": number, "drawn": kind, "deviation": FAR})
                        continue
                    last = called, copies
                    places = places or placed(torch, got, wanted)
                    same = places is not None and len(places) == len(got)
                    worst = self.worst(got, wanted, places) if same else FAR
                    proof.append({"pass": number, "drawn": kind, "deviation": worst})
                    written_to += written
            if last is None:
                # No call has worked so far, which `problems` says.
                continue
            called, copies = last
            try:
                with usual(torch):
                    graphs.append(graph_of(torch, called, [narrow(torch, one) for one in copies]))
            except Exception as problem:
                problems.append(f"torch.export: {type(problem).__name__}: {problem}"[:300])
        trial["places"] = places
        try:
            prepared = self.prepared(reference, form, trial, 0, 0)
            effects = Effects(torch, self.subject, reference, form, trial, prepared).seen()
        except Exception as problem:
            effects = None
            problems.append(f"its side effects cannot be compared: {type(problem).__name__}: {problem}"[:300])
        facts = {
            "proof": proof,
            "problems": problems[:3],
            "places": places,
            "written_to": sorted(set(written_to)),
            "graph": graphs[0] if graphs else None,
            "graphs_alike": len(graphs) == len(PASSES) and all(ops(one) == ops(graphs[0]) for one in graphs),
            "template_ops": self.template_ops(reference, form, trial),
            "other_rank": self.agrees(reference, form, trial, "normal", not trial["split"]),
            "float64_stays": self.stays(reference, form, trial),
            "effects": effects,
        }
        facts |= self.in_all_dtypes(reference, form, trial, effects["failing"] if effects else [])
        facts["hard"] = {kind: self.agrees(reference, form, trial, kind, trial["split"]) for kind in HARD}
        return facts

    def agrees(self, reference: Reference, form: Form, trial: Trial, kind: str, split: bool) -> bool:
        """Whether it is the same on other inputs; false where it does not run."""
        try:
            with widened(self.torch):
                got, wanted, *_ = self.call(reference, form, trial, 0, kind, 0, split)
            places = placed(self.torch, got, wanted) if kind == "normal" else trial.get("places")
            if places is None:
                places = list(range(len(got)))
            return all(alike(self.torch, one, wanted[place]) for one, place in zip(got, places))
        except Exception:
            return False

    def stays(self, reference: Reference, form: Form, trial: Trial) -> bool:
        """Whether float64 stays float64 without help."""
        try:
            with usual(self.torch):
                got, wanted, *_ = self.call(reference, form, trial, 0, "normal", 0, trial["split"])
            return self.worst(got, wanted, placed(self.torch, got, wanted)) < 1e-12
        except Exception:
            return False

    def in_all_dtypes(
        self, reference: Reference, form: Form, trial: Trial, failing: list[list[str]]
    ) -> dict[str, bool]:
        """Whether constants and operators are the same for every dtype, but for those for which calls fail."""
        torch = self.torch
        graphs: dict[Any, dict[str, Any]] = {}
        dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
        words = [word for word, _ in failing]
        scalars, own, lengths = self.prepared(reference, form, trial, 0, 1)
        tensors = reference.arguments(form, reference.inputs(form, lengths, "normal", scalars, 0), lengths, scalars)
        tensors = split_first(reference, lengths, trial["split"], tensors)
        for dtype in (one for one in dtypes if str(one).removeprefix("torch.") not in words):
            called = self.subject.callable(trial["order"], own, self.subject.buffers_in(dtype, trial["order"]))
            try:
                with usual(torch):
                    graphs[dtype] = graph_of(torch, called, [cast_to(one, dtype).clone() for one in tensors])
            except Exception:
                return {"constants_alike": False, "operators_alike": False}
        first, *others = graphs.values()
        return {
            "constants_alike": all(one["constants"] == first["constants"] for one in others),
            "operators_alike": all(without_casts(one) == without_casts(first) for one in others),
        }

    def template_ops(self, reference: Reference, form: Form, trial: Trial) -> list[str]:
        """The operators of the template's own reference in a call of this form."""
        torch = self.torch
        scalars, _, lengths = self.prepared(reference, form, trial, 0, 0)
        inputs = reference.inputs(form, lengths, "normal", scalars, 0)
        drawn = {name: one for name, one in inputs.items() if one is not None}

        class Called(torch.nn.Module):
            def forward(self, *tensors: Tensor) -> Any:
                held = {**dict.fromkeys(inputs), **dict(zip(drawn, tensors))}
                return tuple(reference.results(form, held, lengths, scalars))

        tensors = [narrow(torch, one) for one in drawn.values()]
        try:
            with usual(torch):
                return ops(graph_of(torch, Called(), tensors))
        except Exception:
            return []
