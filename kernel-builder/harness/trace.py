"""Holds a person's reference against what templates serve: which of their calls it can be, and how far the results are.

Owns: the drawn inputs, the calls in float64, the graphs of torch.export. Never: decides what fits; it says what it saw.

One job as JSON on standard input; for each of its names a report on standard output, a line of JSON. An attempt is a form of a template (how a call
of its operation is written), an order of the person's parameters, and values for the numbers. One that is far off at
the first inputs is not tried on more.
"""

import importlib.util
import itertools
import json
import math
import os
import site
import sys

# Lengths of the first axis and of the others, all different, so that an axis taken for another one is seen.
PASSES = ((6, (10, 14, 22, 26, 34)), (4, (36, 18, 12, 28, 20)), (9, (130, 24, 16, 40, 32)), (8, (11, 13, 17, 19, 23)))
# How inputs are drawn: deviation, mean, and whether rows have different sizes.
DRAWN = {"normal": (1, 0, False), "tiny": (1e-3, 0, False), "offset": (1, 3, True), "wide": (30, 0, False)}
# What is reported besides; a person's function may be right where it matters and differ here.
HARD = ("huge", "non-finite", "ignored")
MOST_ORDERS = 800
NEAR = 1e-5
PLAUSIBLE = 0.5
FAR = 1e300
FLOATS: dict = {}


def draw(torch, tensor: dict, lengths: dict, kind: str, numbers: dict, random):
    """One input of an operation."""
    shape = [lengths[axis] for axis in tensor["shape"]]
    if tensor["kind"] == "bool":
        return torch.randint(0, 2, shape, generator=random).bool()
    if tensor["kind"] == "int":
        values = torch.randint(0, lengths.get(tensor.get("counts"), 2), shape, generator=random)
        ignored = numbers.get(tensor.get("ignored"))
        if kind == "ignored" and ignored is not None and values.numel():
            values.view(-1)[::3] = ignored
        return values
    deviation, mean, rows = DRAWN.get(kind, (1e4, 0, False) if kind == "huge" else DRAWN["normal"])
    values = torch.randn(shape, generator=random, dtype=torch.float64)
    if rows and len(shape) > 1:
        values = values * 10 ** (2 * torch.rand([*shape[:-1], 1], generator=random, dtype=torch.float64) - 1)
    values = values * deviation + mean
    if kind == "non-finite" and len(shape) > 1:
        flat = values.view(-1)
        for place, value in enumerate((math.inf, math.nan, -math.inf)):
            flat[(2 * place * shape[-1] + place) % flat.numel()] = value
    return values


def lengths_of(op: dict, number: int, changed: dict) -> dict:
    """The lengths of all axes in one pass."""
    first, others = PASSES[number]
    found, turn = {}, 0
    for place, axis in enumerate(op["axes"]):
        if axis["const"] is not None:
            found[axis["name"]] = axis["const"]
            continue
        length = first if place == 0 else others[turn % len(others)]
        turn += place != 0
        multiple = axis["multiple_of"]
        length = max(-(-length // multiple) * multiple, axis["min"] or 0)
        found[axis["name"]] = changed.get(axis["name"], length)
    return found


def widened(torch):
    """A mode in which nothing that is float64 becomes float32, bfloat16 or float16."""
    from torch.utils._python_dispatch import TorchDispatchMode

    complexes = {torch.complex64: torch.complex128}

    class Widened(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            def wide(value):
                if isinstance(value, torch.dtype):
                    return torch.float64 if value in FLOATS else complexes.get(value, value)
                return value

            return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})

    return Widened()


def flat(value) -> list:
    """The tensors that a call returned, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [one for part in value for one in flat(part)]
    return [value]


class Reference:
    """One operation of a template: its reference, and the forms of its calls."""

    def __init__(self, torch, job: dict) -> None:
        self.torch, self.name, self.op = torch, job["name"], job["op"]
        path = job["reference"]
        spec = importlib.util.spec_from_file_location(f"template_{job['name'].replace('-', '_')}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.function = getattr(module, job["function"])
        self.forms = job["forms"]

    def inputs(self, form: dict, lengths: dict, kind: str, numbers: dict, seed: int) -> dict:
        """Drawn inputs by name; those that the form leaves out are None."""
        random = self.torch.Generator().manual_seed(seed)
        left_out = form["without"]
        drawn = {}
        for tensor in self.op["inputs"]:
            value = draw(self.torch, tensor, lengths, kind, numbers, random)
            drawn[tensor["name"]] = None if tensor["name"] in left_out else value
        return drawn

    def words(self, inputs: dict, lengths: dict, numbers: dict) -> dict:
        return {"torch": self.torch, **lengths, **numbers, **inputs}

    def arguments(self, form: dict, inputs: dict, lengths: dict, numbers: dict) -> list:
        """What a call of this form is given, made of the operation's own inputs."""
        words = self.words(inputs, lengths, numbers)
        return [eval(text, dict(words)) for text in form["arguments"]]

    def results(self, form: dict, inputs: dict, lengths: dict, numbers: dict) -> list:
        """What a call of this form returns."""
        returned = flat(self.function(*inputs.values(), **numbers))
        if form["results"] is None:
            return returned
        words = self.words(inputs, lengths, numbers) | dict(zip(self.op["outputs"], returned))
        return [eval(text, dict(words)) for text in form["results"]]


def deviation(torch, got, wanted) -> float:
    """How far a result is from what is wanted, in parts of the largest of its row; FAR where they cannot be compared."""
    if not isinstance(got, torch.Tensor) or got.shape != wanted.shape:
        return FAR
    if not wanted.dtype.is_floating_point:
        same = not got.dtype.is_floating_point and bool((got == wanted).all())
        return 0.0 if same else FAR
    if not got.dtype.is_floating_point:
        return FAR
    got, wanted = got.to(torch.float64), wanted.to(torch.float64)
    if wanted.numel() == 0:
        return 0.0
    if not bool(got.isfinite().all()) or not bool(wanted.isfinite().all()):
        return FAR
    size = wanted.abs().amax(dim=-1, keepdim=True) if wanted.dim() > 1 else wanted.abs().amax()
    return float(((got - wanted).abs() / size.clamp_min(1e-290)).amax().clamp_max(FAR))


def alike(torch, got, wanted) -> bool:
    """Whether two results are the same, NaN and infinities included."""
    if got.shape != wanted.shape:
        return False
    if not wanted.dtype.is_floating_point:
        return bool((got == wanted).all())
    return bool(torch.isclose(got.double(), wanted.double(), rtol=1e-7, atol=1e-12, equal_nan=True).all())


def placed(torch, got: list, wanted: list) -> list | None:
    """Which of the wanted results each is, by nearness; None where one has no counterpart of its shape."""
    free, places = list(range(len(wanted))), []
    for one in got:
        near = [(deviation(torch, one, wanted[place]), place) for place in free]
        near = [pair for pair in near if pair[0] < FAR]
        if not near:
            return None
        places.append(min(near)[1])
        free.remove(places[-1])
    return places


class Attempts:
    """Every way to call the person's function as a form of a template."""

    def __init__(self, torch, subject) -> None:
        self.torch, self.subject = torch, subject
        self.constants: dict = {}

    def numbers_of(self, op: dict, fixed: dict, constants: list) -> list:
        """The ways in which the operation's scalars get a value: a parameter of the person's, or a constant."""
        ways = []
        for scalar in op["scalars"]:
            name, kind = scalar["name"], scalar["kind"]
            if name in fixed:
                ways.append([("is", fixed[name])])
                continue
            own = [one for one in self.subject.parameters if one.kind == kind]
            own.sort(key=lambda one: one.name != name)
            options = [("from", one.name) for one in own]
            if kind == "bool":
                options += [("is", scalar["default"]), ("is", not scalar["default"])]
            else:
                held = [scalar["default"], *(one.value for one in own if one.value is not None)]
                seen = [one for one in constants if type(one) in ((float, int) if kind == "float" else (int,))]
                if kind == "float":
                    seen = [float(one) for one in seen if 0 <= abs(one) < 1]
                options += [("is", value) for value in dict.fromkeys([*held, *seen])]
            ways.append(options)
        names = [scalar["name"] for scalar in op["scalars"]]
        chosen = [dict(zip(names, way)) for way in itertools.product(*ways)]
        taken = lambda way: [value for what, value in way.values() if what == "from"]
        return [way for way in chosen if len(set(taken(way))) == len(taken(way))]

    @staticmethod
    def values_of(scalar: dict, way: tuple, turn: int):
        """The value of a scalar: where it is a parameter of the person's, another one at another turn."""
        what, value = way
        if what == "is":
            return value
        default = scalar["default"]
        if scalar["kind"] == "bool":
            return bool(turn % 2) != default
        if scalar["kind"] == "int":
            return default if turn % 2 == 0 else 2
        return default if turn % 2 == 0 else 0.037

    def given(self, op: dict, way: dict, turn: int) -> tuple[dict, dict]:
        """The operation's scalars, and the person's numbers, of one call."""
        scalars = {one["name"]: self.values_of(one, way[one["name"]], turn) for one in op["scalars"]}
        own = {value: scalars[name] for name, (what, value) in way.items() if what == "from"}
        return scalars, own

    def call(self, reference, form, attempt, number, kind, turn, split):
        """The person's results and the wanted ones of one call; both in float64."""
        torch = self.torch
        lengths = lengths_of(reference.op, number, attempt["changed"])
        if attempt["sized"]:
            self.subject.resize(lengths[attempt["sized"]])
        scalars, own = self.given(reference.op, attempt["numbers"], turn)
        inputs = reference.inputs(form, lengths, kind, scalars, 1000 * number + turn + len(kind))
        first = next(axis["name"] for axis in reference.op["axes"])
        tensors = reference.arguments(form, inputs, lengths, scalars)
        wanted = reference.results(form, inputs, lengths, scalars)
        if split:
            tensors = [halved(one, lengths[first]) for one in tensors]
            wanted = [halved(one, lengths[first]) for one in wanted]
        names = attempt["order"]
        known = {**self.subject.example_shapes, **{key: list(one.shape) for key, one in self.subject.state.items()}}
        for name, tensor in zip(names, tensors):
            if name in self.subject.state and known[name] != list(tensor.shape):
                raise ValueError(f"`{name}` has the shape {known[name]}")
            if name in self.subject.example_shapes and len(known[name]) != tensor.dim():
                raise ValueError(f"the example of `{name}` has {len(known[name])} axes")
        called = self.subject.callable(names, own)
        copies = [one.clone() for one in tensors]
        with torch.no_grad():
            got = flat(called(*copies))
        written = [name for name, copy, one in zip(names, copies, tensors) if not alike(torch, copy, one)]
        return got, wanted, written, copies, called

    def orders(self, form: dict) -> list:
        """The slots of the person's function in the order of the form's arguments; those without default all occur."""
        slots = self.subject.slots()
        count = len(form["arguments"])
        needed = {one.name for one in slots if not one.optional}
        if count > len(slots) or count < len(needed):
            return []
        found = itertools.permutations([one.name for one in slots], count)
        fitting = (order for order in found if needed <= set(order))
        return list(itertools.islice(fitting, MOST_ORDERS))

    def changes(self, op: dict) -> list:
        """Other lengths of an axis, where the module or the example has lengths of its own."""
        free = [axis["name"] for axis in op["axes"][1:] if axis["const"] is None]
        lengths = list(dict.fromkeys(self.subject.lengths))[:6]
        if self.subject.length_parameter is not None or not lengths:
            return [{}]
        return [{}] + [{name: length} for name in free for length in lengths if length > 1]

    def sizes(self, op: dict) -> list:
        """The axes that a module may be made for."""
        if self.subject.length_parameter is None:
            return [None]
        return [axis["name"] for axis in op["axes"][::-1] if axis["const"] is None]

    def of(self, reference, form: dict) -> list:
        """The attempts of a form that run, with their first deviation; the last error where none runs."""
        torch, op = self.torch, reference.op
        found, error = [], None
        turns = itertools.product(self.orders(form), self.changes(op), self.sizes(op), (False, True))
        for order, changed, sized, split in turns:
            fixed = form["scalars"]
            default = {one["name"]: ("is", fixed.get(one["name"], one["default"])) for one in op["scalars"]}
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
            has_number = any(one["kind"] != "bool" for one in op["scalars"])
            constants = self.constants_of(called, copies) if has_number and apart < PLAUSIBLE else []
            for numbers in self.numbers_of(op, fixed, constants):
                trial = {**attempt, "numbers": numbers, "split": split}
                trial |= self.first(reference, form, trial)
                found.append(trial)
                # What the person's own numbers explain needs no constant.
                if trial["deviation"] < NEAR and all(what == "from" for what, _ in numbers.values()):
                    break
            if any(one["deviation"] < NEAR for one in found):
                break
        return found or [{"error": error or self.unequal(form)}]

    def unequal(self, form: dict) -> str:
        slots = self.subject.slots()
        return f"it takes {len(slots)} tensors ({', '.join(one.name for one in slots)}), the call {len(form['arguments'])}"

    def constants_of(self, called, tensors: list) -> list:
        """The numbers in the graph; those of the same shapes are looked up."""
        key = json.dumps([list(one.shape) for one in tensors])
        if key not in self.constants:
            try:
                graph = graph_of(self.torch, called, [narrow(self.torch, one) for one in tensors])
                self.constants[key] = graph["constants"]
            except Exception:  # what cannot be exported is told of the attempt that fits
                self.constants[key] = []
        return self.constants[key]

    def first(self, reference, form, trial) -> dict:
        """The deviation at the first inputs, with two values of every parameter."""
        worst = 0.0
        try:
            for turn in (0, 1):
                with widened(self.torch):
                    got, wanted, *_ = self.call(reference, form, trial, 0, "normal", turn, trial["split"])
                places = placed(self.torch, got, wanted)
                worst = max(worst, self.worst(got, wanted, places))
        except Exception as problem:
            return {"deviation": FAR, "problem": f"{type(problem).__name__}: {problem}"[:300]}
        return {"deviation": worst}

    def worst(self, got, wanted, places) -> float:
        if places is None:
            return FAR
        return max(deviation(self.torch, one, wanted[place]) for one, place in zip(got, places))

    def prove(self, reference, form, trial) -> dict:
        """Everything that is known of an attempt that was near at the first inputs."""
        torch = self.torch
        places, proof, problems = None, [], []
        graphs, written_to = [], []
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
                    places = places or placed(torch, got, wanted)
                    same = places is not None and len(places) == len(got)
                    worst = self.worst(got, wanted, places) if same else FAR
                    proof.append({"pass": number, "drawn": kind, "deviation": worst})
                    written_to += written
            try:
                graphs.append(graph_of(torch, called, [narrow(torch, one) for one in copies]))
            except Exception as problem:
                problems.append(f"torch.export: {type(problem).__name__}: {problem}"[:300])
        lengths = lengths_of(reference.op, 0, trial["changed"])
        trial["places"] = places
        facts = {
            "proof": proof,
            "problems": problems[:3],
            "places": places,
            "written_to": sorted(set(written_to)),
            "graph": graphs[0] if graphs else None,
            "graphs_alike": len(graphs) == len(PASSES) and all(ops(one) == ops(graphs[0]) for one in graphs),
            "template_ops": self.template_ops(reference, form, trial, lengths),
            "other_rank": self.agrees(reference, form, trial, "normal", not trial["split"]),
            "float64_stays": self.stays(reference, form, trial),
            "dtypes": self.dtypes(reference, form, trial, places),
        }
        try:
            scalars, own = self.given(reference.op, trial["numbers"], 0)
            wide = graph_of(torch, called, [one.clone() for one in copies])
            facts["constants_alike"] = bool(graphs) and wide["constants"] == graphs[-1]["constants"]
        except Exception:
            facts["constants_alike"] = False
        facts["hard"] = {kind: self.agrees(reference, form, trial, kind, trial["split"]) for kind in HARD}
        return facts

    def agrees(self, reference, form, trial, kind, split) -> bool:
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

    def stays(self, reference, form, trial) -> bool:
        """Whether float64 stays float64 without help."""
        try:
            got, wanted, *_ = self.call(reference, form, trial, 0, "normal", 0, trial["split"])
            return self.worst(got, wanted, placed(self.torch, got, wanted)) < 1e-12
        except Exception:
            return False

    def dtypes(self, reference, form, trial, places) -> bool:
        """Whether the results have the dtypes of the template's, for every dtype of the operation."""
        torch = self.torch
        try:
            lengths = lengths_of(reference.op, 0, trial["changed"])
            if trial["sized"]:
                self.subject.resize(lengths[trial["sized"]])
            scalars, own = self.given(reference.op, trial["numbers"], 0)
            for dtype in FLOATS:
                inputs = reference.inputs(form, lengths, "normal", scalars, 0)
                cast = {
                    key: one if one is None or not one.is_floating_point() else one.to(dtype)
                    for key, one in inputs.items()
                }
                first = lengths[reference.op["axes"][0]["name"]]
                tensors = reference.arguments(form, cast, lengths, scalars)
                wanted = reference.results(form, cast, lengths, scalars)
                if trial["split"]:
                    tensors = [halved(one, first) for one in tensors]
                with torch.no_grad():
                    got = flat(self.subject.callable(trial["order"], own)(*tensors))
                if [one.dtype for one in got] != [wanted[place].dtype for place in places]:
                    return False
            return True
        except Exception:
            return False

    def template_ops(self, reference, form, trial, lengths) -> list:
        """The operators of the template's own reference in a call of this form."""
        torch = self.torch
        scalars, _ = self.given(reference.op, trial["numbers"], 0)
        inputs = reference.inputs(form, lengths, "normal", scalars, 0)
        names = [name for name, one in inputs.items() if one is not None]

        class Called(torch.nn.Module):
            def forward(self, *tensors):
                held = {**{name: None for name in inputs}, **dict(zip(names, tensors))}
                return tuple(reference.results(form, held, lengths, scalars))

        tensors = [narrow(torch, inputs[name]) for name in names]
        try:
            return ops(graph_of(torch, Called(), tensors))
        except Exception:
            return []


def shapes(torch, values: list) -> str:
    return ", ".join(str(list(one.shape)) if isinstance(one, torch.Tensor) else type(one).__name__ for one in values)


def halved(tensor, first: int):
    """The first axis as two, where it is the leading one."""
    if tensor.dim() and tensor.shape[0] == first:
        return tensor.unflatten(0, (2 if first % 2 == 0 else 3, -1))
    return tensor


def narrow(torch, tensor):
    """A tensor for a graph: a copy, in float32 where it is in float64."""
    return tensor.to(torch.float32) if tensor.dtype == torch.float64 else tensor.clone()


def ops(graph: dict) -> list:
    return sorted({node["op"] for node in graph["nodes"]})


def graph_of(torch, called, tensors: list) -> dict:
    """The graph of one call in core ATen, in order: operators, arguments, shapes and dtypes."""
    exported = torch.export.export(called, tuple(tensors))
    table = torch.export.default_decompositions()
    for kept in ("logsumexp.default",):
        name, overload = kept.split(".")
        table.pop(getattr(getattr(torch.ops.aten, name), overload), None)
    graph = exported.run_decompositions(table).graph
    nodes, constants = [], []

    def word(value):
        if isinstance(value, torch.fx.Node):
            return f"%{value.name}"
        if isinstance(value, (tuple, list)):
            return [word(one) for one in value]
        if isinstance(value, (bool, int, str)) or value is None:
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                return str(value)
            constants.append(value)
            return value
        return str(value).removeprefix("torch.")

    for node in graph.nodes:
        if node.op != "call_function":
            continue
        target = node.target
        name = str(target).removeprefix("aten.") if hasattr(target, "overloadpacket") else target.__name__
        if name.startswith("_assert"):
            continue
        for value in node.args:
            if type(value) is int:
                constants.append(value)
        meta = node.meta.get("val")
        first = meta[0] if isinstance(meta, (tuple, list)) and meta else meta
        is_tensor = isinstance(first, torch.Tensor)
        nodes.append(
            {
                "name": f"%{node.name}",
                "op": name,
                "arguments": [word(one) for one in node.args] + [f"{key}={word(one)}" for key, one in node.kwargs.items()],
                "shape": [int(one) for one in first.shape] if is_tensor else None,
                "dtype": str(first.dtype).removeprefix("torch.") if is_tensor else None,
            }
        )
    return {"nodes": nodes, "constants": list(dict.fromkeys(constants))}


def guessed(torch, subject) -> tuple:
    """A graph of the function alone, with the example inputs or simple ones; the error where it has none."""
    subject.resize(16)
    slots = subject.slots()
    examples = subject.example_values
    needed = [one for one in slots if not one.optional or one.name in examples]
    error = "nothing was tried"
    for rank in ((2, 1), (2, 2), (3, 1), (3, 3), (3, 2), (1, 1), (4, 4)):
        shape = {1: [16], 2: [6, 16], 3: [2, 6, 16], 4: [2, 3, 6, 16]}
        tensors = []
        for place, one in enumerate(needed):
            known = examples.get(one.name, subject.state.get(one.name))
            value = torch.randn(shape[rank[0] if place == 0 else rank[1]])
            tensors.append(known if isinstance(known, torch.Tensor) else value)
        numbers = {one.name: {"float": 1e-6, "int": 1, "bool": False}[one.kind]
                   for one in subject.parameters if one.kind in ("float", "int", "bool") and one.value is None}
        try:
            return graph_of(torch, subject.callable([one.name for one in needed], numbers), tensors), None
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"[:600]
    return None, error


def finite(value):
    """A number that JSON has; None for anything else."""
    return value if isinstance(value, (bool, int, float)) and math.isfinite(value) else None


def report(torch, job: dict, name: str | None) -> dict:
    """Everything that was seen of one function or class."""
    from subject import Subject, Unusable

    FLOATS.update({torch.float32: None, torch.bfloat16: None, torch.float16: None})
    try:
        subject = Subject(job["file"], name)
    except Unusable as problem:
        return {"unusable": str(problem)}
    except Exception as problem:
        return {"unusable": f"it does not load: {type(problem).__name__}: {problem}"[:600]}
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    attempts, tried = Attempts(torch, subject), []
    for template in job["templates"]:
        reference = Reference(torch, template)
        for number, form in enumerate(reference.forms):
            for trial in attempts.of(reference, form):
                trial |= {"template": reference.name, "form": number}
                if trial.get("deviation", FAR) < NEAR:
                    trial["facts"] = attempts.prove(reference, form, trial)
                tried.append(trial)
    known = {}
    near = any("facts" in one for one in tried)
    torch.set_default_dtype(torch.float32)
    graph, error = (None, None) if near else guessed(torch, subject)
    if not near:
        for template in job["templates"]:
            reference = Reference(torch, template)
            numbers = {one["name"]: ("is", one["default"]) for one in reference.op["scalars"]}
            trial = {"numbers": numbers, "changed": {}}
            lengths = lengths_of(reference.op, 0, {})
            known[reference.name] = attempts.template_ops(reference, reference.forms[0], trial, lengths)
    return {
        "torch": torch.__version__,
        "name": subject.name,
        "module": subject.is_module,
        "parameters": [{"name": one.name, "kind": one.kind, "optional": one.optional, "value": finite(one.value)} for one in subject.parameters],
        "state": list(subject.state),
        "example": bool(subject.example_values),
        "attempts": tried,
        "graph": graph,
        "error": error,
        "template_ops": known,
    }


def main() -> None:
    """Take the job, keep what the person's file prints away from the answer."""
    answer = os.dup(1)
    os.dup2(2, 1)
    job = json.loads(sys.stdin.buffer.read())
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    managed = os.environ.pop("KERNELWRIGHT_SITE", None)
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.pop("KERNELWRIGHT_BESIDE", "").split(":"))
    import torch

    torch.set_num_threads(job["threads"])
    with os.fdopen(answer, "w") as out:
        for name in job["names"]:
            out.write(json.dumps(report(torch, job, name)) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
