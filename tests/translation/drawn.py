"""Functions that are drawn, as text: chains of operators of tensors, as models have them, of a seed.

Owns: which operators there are, and that values stay in a range in which float32 is good. Never: runs one.
"""

from __future__ import annotations

import random

#: Lengths of the axes in the call that is traced; all differ, so that each is a symbol of its own.
LENGTHS = {"a": 5, "b": 6, "c": 10}

UNARY = [
    "torch.tanh({0})", "torch.sigmoid({0})", "torch.relu({0})", "F.silu({0})", "F.gelu({0})", "F.gelu({0}, approximate='tanh')",
    "torch.exp(-torch.abs({0}))", "torch.sqrt(torch.abs({0}) + 0.5)", "torch.log1p(torch.abs({0}))", "torch.sin({0})",
    "F.softplus({0})", "F.elu({0})", "F.leaky_relu({0}, 0.1)", "torch.rsqrt({0} * {0} + 1)", "torch.clamp({0}, -1.5, 2.0)",
    "{0} * 0.7 - 0.3", "1 - {0}", "torch.atan({0})", "F.hardsigmoid({0})", "torch.erf({0})", "-{0}", "{0}.square() * 0.3",
]  # fmt: skip
BINARY = [
    "{0} + {1}", "{0} - {1}", "{0} * torch.tanh({1})", "{0} / (torch.abs({1}) + 1)", "torch.maximum({0}, {1})",
    "torch.minimum({0}, {1})", "torch.where({0} > {1}, {0}, {1} * 0.5)", "torch.sigmoid({1}) * {0}",
]  # fmt: skip
#: Reductions along one axis; `True` for those that may also lose the axis.
REDUCTIONS = [
    "{0}.sum({1}, keepdim={2}) * 0.2", "{0}.mean({1}, keepdim={2})", "{0}.amax({1}, keepdim={2})", "{0}.amin({1}, keepdim={2})",
    "{0}.var({1}, unbiased=False, keepdim={2})", "torch.logsumexp({0}, {1}, keepdim={2})",
    "torch.linalg.vector_norm({0}, dim={1}, keepdim={2})", "{0}.max({1}, keepdim={2})[0]",
]  # fmt: skip
SAME_SHAPE = [
    "torch.softmax({0}, {1})", "torch.log_softmax({0}, {1}) * 0.3", "torch.cumsum({0}, {1}) * 0.1", "{0}.flip({1})",
    "F.pad({0}, {2})", "torch.cat(({0}, {0} * 2), {1}).sum({1}, keepdim=True)", "torch.stack(({0}, -{0}), {1}).amax({1})",
    "F.layer_norm({0}, {0}.shape[-1:])",
]  # fmt: skip


class Drawing:
    """One function in the making."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.lines = chance, []
        self.inputs: dict[str, tuple[str, ...]] = {}
        #: The shape of every value: names of axes, or "1".
        self.values: dict[str, tuple[str, ...]] = {}

    def take(self, shape: tuple[str, ...], text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = shape
        return name

    def fitting(self, shape: tuple[str, ...]) -> list[str]:
        """Values that are broadcast to a shape."""

        def fits(own: tuple[str, ...]) -> bool:
            return len(own) <= len(shape) and all(
                one in ("1", whole) for one, whole in zip(reversed(own), reversed(shape))
            )

        return [name for name, own in self.values.items() if fits(own)]

    def step(self) -> None:
        chance = self.chance
        # Later values more often, so that chains become long.
        names = list(self.values)
        name = names[max(chance.randrange(len(names)), chance.randrange(len(names)))]
        shape = self.values[name]
        kind = chance.choices(["unary", "binary", "reduce", "same", "move"], [5, 5, 3, 2, 2])[0]
        if kind == "binary":
            other = chance.choice(self.fitting(shape))
            self.take(shape, chance.choice(BINARY).format(name, other))
        elif kind == "reduce" and any(one != "1" for one in shape):
            axis = chance.choice([place for place, one in enumerate(shape) if one != "1"])
            keep = len(shape) == 1 or chance.random() < 0.6
            rest = ("1",) if keep else ()
            text = chance.choice(REDUCTIONS).format(name, axis - len(shape), keep)
            self.take(shape[:axis] + rest + shape[axis + 1 :], text)
        elif kind == "same" and shape and shape[-1] != "1":
            axis = chance.randrange(len(shape))
            text = chance.choice(SAME_SHAPE)
            if text.startswith("F.pad"):
                before = chance.randrange(3)
                cut = f"[..., :{name}.shape[-1]]" if before else f"[..., -{name}.shape[-1]:]"
                self.take(shape, f"F.pad({name}, ({before}, {2 - before})){cut}")
            elif text.startswith("torch.cat"):
                self.take(shape[:axis] + ("1",) + shape[axis + 1 :], text.format(name, axis))
            elif text.startswith("torch.stack"):
                self.take(shape, text.format(name, axis))
            else:
                self.take(shape, text.format(name, axis))
        elif kind == "move" and len(shape) > 1:
            one, two = chance.sample(range(len(shape)), 2)
            moved = list(shape)
            moved[one], moved[two] = moved[two], moved[one]
            self.take(tuple(moved), f"{name}.transpose({one}, {two})")
        else:
            self.take(shape, chance.choice(UNARY).format(name))


def function(name: str, chance: random.Random, most: int) -> str:
    """The text of a function with its `example_inputs`."""
    drawing = Drawing(chance)
    rank = chance.choice([1, 2, 2, 3])
    axes = tuple(list(LENGTHS)[-rank:])
    for number in range(chance.choice([1, 2, 2, 3])):
        own = axes if number == 0 else axes[chance.randrange(len(axes)) :]
        drawing.inputs[f"x{number}"] = own
        drawing.values[f"x{number}"] = own
    for _ in range(chance.randrange(2, most + 1)):
        drawing.step()
    # Everything that nothing uses is a result, or takes part in one.
    unused = [one for one in drawing.values if one.startswith("v") and not any(one in line.split("=", 1)[1] for line in drawing.lines)]
    results = unused[-2:]
    for one in drawing.inputs:
        if not any(one in line for line in drawing.lines):
            drawing.lines.append(f"{results[-1]} = {results[-1]} + {one}.sum()")
    returned = ", ".join(f"{one} * 1.5" for one in results)
    shapes = [", ".join(str(LENGTHS[axis]) for axis in shape) for shape in drawing.inputs.values()]
    example = ", ".join(f"torch.randn({shape})" for shape in shapes)
    body = "\n".join(f"    {line}" for line in [*drawing.lines, f"return {returned}"])
    return f"def example_inputs_{name}():\n    return ({example},)\n\n\ndef {name}({', '.join(drawing.inputs)}):\n{body}\n"


def file(seed: int, count: int, most: int = 14) -> str:
    """A file of functions `drawn_0`, `drawn_1`, ..."""
    parts = [function(f"drawn_{seed}_{number}", random.Random(f"{seed} {number}"), most) for number in range(count)]
    return "\n\n".join(["import torch\nimport torch.nn.functional as F\n", *parts])


if __name__ == "__main__":
    import sys

    print(file(int(sys.argv[1]), int(sys.argv[2])))
