"""What timed calls are made with: one concrete call's shapes, its input sets, and the order in which they are used.

Owns: input values, which memory a call may overwrite, and that it holds fresh values when the call begins.
Never: looks at a clock.

A call that overwrites an input finds other values there the next time. Therefore every timed call of such an operation
has memory of its own for those inputs, and all of it is filled again before the clock starts. That is done for every
contender alike, though only the kernel overwrites: the baselines are functional, and allocate what they return.
"""

import math

# Memory for the inputs that timed calls of one sample overwrite.
OVERWRITTEN_BYTES = 256 << 20


def tensors(result):
    """What a call returned, as a list; nothing for `None`."""
    if result is None:
        return []
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Case:
    """One concrete call: shapes, dtypes and scalars, with as many independent input sets as are asked for."""

    def __init__(self, torch, request, case):
        self.torch = torch
        self.id = case["id"]
        self.inputs = case["inputs"]
        self.outputs = case["outputs"]
        self.scalars = {scalar["name"]: scalar["value"] for scalar in case["scalars"]}
        self.accumulated = max(1, case["accumulated"])
        self.dtypes = {name: getattr(torch, attribute) for name, attribute in request["dtypes"].items()}
        self.device = request["device"]
        names = [tensor["name"] for tensor in self.inputs]
        # For each output the place of the input that it overwrites, or None.
        self.places = [names.index(output["inplace"]) if "inplace" in output else None for output in self.outputs]
        self.overwritten = [place for place in self.places if place is not None]
        self.input_bytes = self.bytes_of(self.inputs)
        self.overwritten_bytes = self.bytes_of([self.inputs[place] for place in self.overwritten])
        self.bytes = self.input_bytes + self.bytes_of(self.outputs)

    def bytes_of(self, declared):
        present = [tensor for tensor in declared if not tensor.get("omitted")]
        return sum(math.prod(tensor["shape"]) * self.dtypes[tensor["dtype"]].itemsize for tensor in present)

    def has_float8(self):
        """Whether a tensor is of an 8-bit floating-point dtype, for which PyTorch lacks most operators."""
        declared = [self.dtypes[tensor["dtype"]] for tensor in self.inputs + self.outputs]
        return any(dtype.is_floating_point and dtype.itemsize == 1 for dtype in declared)

    def make_sets(self, count, generator):
        return [[self.fill(tensor, generator) for tensor in self.inputs] for _ in range(count)]

    def fill(self, declared, generator):
        """Random values: normal for floating point, the whole small range for integers, never zeros; None for an
        input that is not passed."""
        if declared.get("omitted"):
            return None
        torch, dtype = self.torch, self.dtypes[declared["dtype"]]
        if dtype.is_floating_point:
            wide = dtype if dtype == torch.float64 else torch.float32
            values = torch.randn(declared["shape"], generator=generator, device=self.device, dtype=wide)
            return values.to(dtype)
        low, high = (0, 2) if dtype == torch.bool else (-100, 100)
        values = torch.randint(low, high, declared["shape"], generator=generator, device=self.device)
        return values.to(dtype)

    def results(self, returned, arguments):
        """Every output of a call of the kernel in order: what it returned, and copies of what it overwrote."""
        own = iter(tensors(returned))
        placed = [next(own, None) if place is None else arguments[place].clone() for place in self.places]
        return [result for result in (*placed, *own) if result is not None]

    def rotation(self, sets):
        """The arguments of one call after another, on these sets in turn."""
        return Overwritten(self, sets) if self.overwritten else Rotation(sets)


class Rotation:
    """Arguments that calls only read: the same ones come round again."""

    # How many calls may follow each other without a pause.
    most = math.inf

    def __init__(self, slots):
        self.slots = slots

    def __len__(self):
        return len(self.slots)

    def __getitem__(self, place):
        return self.slots[place]

    def reserve(self, calls):
        """Make room for so many calls in a row."""

    def fresh(self, first, count):
        """Arguments for `count` calls from the slot `first` on, wrapping round, ready to be used."""
        return [self.slots[(first + step) % len(self.slots)] for step in range(count)]


class Overwritten(Rotation):
    """Arguments that calls overwrite: slot `k` holds the values of set `k % len(sets)`, in memory of its own where a call
    writes, and is filled again each time it is handed out."""

    def __init__(self, case, sets):
        super().__init__([])
        self.case = case
        self.sets = sets
        self.most = max(len(sets), OVERWRITTEN_BYTES // max(1, case.overwritten_bytes))
        self.reserve(len(sets))

    def reserve(self, calls):
        while len(self.slots) < calls:
            slot = list(self.sets[len(self.slots) % len(self.sets)])
            for place in self.case.overwritten:
                slot[place] = slot[place].clone()
            self.slots.append(slot)

    def fresh(self, first, count):
        for step in range(min(count, len(self.slots))):
            place = (first + step) % len(self.slots)
            for overwritten in self.case.overwritten:
                self.slots[place][overwritten].copy_(self.sets[place % len(self.sets)][overwritten])
        return super().fresh(first, count)
