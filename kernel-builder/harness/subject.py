"""A function or module of a person's file, and how it can be called.

Owns: what its parameters are (tensors, numbers, left alone), the example inputs of the file, the numbers in its code.
Never: knows a template.
"""

from __future__ import annotations

import inspect
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

import torch

from loading import Unusable, chosen, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# What a parameter without annotation and default is taken for, by its name; anything else is a tensor.
NUMBERS = {"eps": float, "epsilon": float, "variance_epsilon": float, "norm_eps": float}
LAST_AXIS = ("dim", "axis")
LAST_LENGTH = ("normalized_shape",)


# Lengths that a module is made for, in this order, until it accepts one.
SIZES = (16, 32, 64, 96, 128, 256, 512, 768, 1024)
# Numbers in the code of a function that may be a length, or divide one.
HINTS = range(3, 4097)
MOST_HINTS = 4
FUNCTION = type(lambda: None)


class Parameter:
    """One parameter of the call: `tensor`, `float`, `int`, `bool`, or `fixed` (always `value`).

    One that is pinned is given by `example_inputs()`: the person says that the call is meant with this value.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        value: Any = None,
        optional: bool = False,
        keyword: bool = False,
        pinned: bool = False,
    ) -> None:
        self.name, self.kind = name, kind
        self.value: Any = value
        self.optional, self.keyword, self.pinned = optional, keyword, pinned


def kind_of(parameter: inspect.Parameter, given: bool, value: Any) -> Parameter:
    """What a parameter of a signature is."""
    name, default = parameter.name, parameter.default
    keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    if given:
        if isinstance(value, torch.Tensor):
            return Parameter(name, "tensor", keyword=keyword)
        kind = type(value).__name__ if type(value) in (bool, int, float) else "fixed"
        return Parameter(name, kind, value, keyword=keyword, pinned=True)
    empty = default is inspect.Parameter.empty
    annotation = parameter.annotation
    words = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if "Tensor" in words or "Tensor" in str(annotation):
        return Parameter(name, "tensor", optional=not empty, keyword=keyword)
    if empty:
        for kind in (bool, int, float):
            if annotation is kind or words == kind.__name__:
                if kind is int and name in LAST_AXIS:
                    return Parameter(name, "fixed", -1, keyword=keyword)
                return Parameter(name, kind.__name__, keyword=keyword)
        if name in NUMBERS:
            return Parameter(name, NUMBERS[name].__name__, keyword=keyword)
        if name in LAST_AXIS:
            return Parameter(name, "fixed", -1, keyword=keyword)
        if name in LAST_LENGTH:
            return Parameter(name, "last-length", keyword=keyword)
        return Parameter(name, "tensor", keyword=keyword)
    for kind in (bool, int, float):
        # A default of None may stand for a tensor; another one says what the parameter is.
        if type(default) is kind:
            return Parameter(name, kind.__name__, default, optional=True, keyword=keyword)
    if default is None:
        return Parameter(name, "tensor", optional=True, keyword=keyword)
    return Parameter(name, "fixed", default, optional=True, keyword=keyword)


class Subject:
    """What is traced: a function, or a module whose parameters are tensors of the call, too."""

    def __init__(self, path: str, name: str | None) -> None:
        self.module = load(path)
        self.path = self.module.__file__ or path
        self.name, found = chosen(self.module, name)
        self.is_module = inspect.isclass(found)
        # Whether a module is called in training mode.
        trains: object = getattr(self.module, "example_training", False)
        if not isinstance(trains, bool):
            raise Unusable(f"example_training is {trains!r}; it must be True or False")
        self.trains = trains
        self.lengths: list[int] = []
        self.length_parameter: str | None = None
        self.made_with: list[str] = []
        self.dropped: list[str] = []
        self.state: dict[str, torch.Tensor] = {}
        self.buffers: set[str] = set()
        self.found: Any = found
        self.instance: Any = None
        example = self.example()
        if self.is_module:
            self.constructor(found)
            called = inspect.signature(self.instance.forward)
        else:
            called = inspect.signature(found)
        parameters = list(called.parameters.values())
        for parameter in parameters:
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                self.dropped.append(parameter.name)
        parameters = [one for one in parameters if one.name not in self.dropped]
        self.parameters = [
            kind_of(one, one.name in example, example.get(one.name)) for one in self.bind(parameters, example)
        ]
        self.example_shapes = {
            key: list(value.shape) for key, value in example.items() if isinstance(value, torch.Tensor)
        }
        self.example_values = example
        for value in example.values():
            self.lengths += list(value.shape) if isinstance(value, torch.Tensor) else []
            several = cast("list[Any]", value) if isinstance(value, (tuple, list)) else []
            self.lengths += [one for one in several if isinstance(one, int)]
        for value in self.state.values():
            self.lengths += list(value.shape)
        self.hints = self.numbers()

    def numbers(self) -> list[int]:
        """Numbers that may be a length or a count: in the code, in what it reads of its file, in a module's attributes."""
        found: list[int] = []
        for code in self.codes():
            found += [one for one in code.co_consts if type(one) is int]
            found += [one for one in map(vars(self.module).get, code.co_names) if type(one) is int]
        if self.is_module:
            found += [one for module in self.parts() for one in vars(module).values() if type(one) is int]
        return [one for one in dict.fromkeys(found) if one in HINTS][:MOST_HINTS]

    def parts(self) -> list[torch.nn.Module]:
        """The module and its parts; nothing for a function."""
        return list(self.instance.modules()) if self.is_module else []

    def codes(self) -> list[CodeType]:
        """The code of the function, or of the forward passes of a module and its parts, with what is defined inside."""
        functions: list[Any] = [type(one).forward for one in self.parts()]
        functions = [one for one in functions if isinstance(one, FUNCTION)]
        if not self.is_module:
            functions = [inspect.unwrap(self.found)]
        found: list[CodeType] = [function.__code__ for function in functions if hasattr(function, "__code__")]
        for code in found:
            found += [one for one in code.co_consts if inspect.iscode(one)]
        return found

    def words(self) -> list[str]:
        """The short strings of the code and of the file's functions that it names, and the keys of dicts that it names."""
        codes = self.codes()
        wrapper: Any = self.found
        while hasattr(wrapper, "__wrapped__"):
            codes += [wrapper.__code__] if isinstance(wrapper, FUNCTION) else []
            wrapper = wrapper.__wrapped__
        parts = self.parts()
        places: list[Any] = [vars(self.module), *map(vars, parts), *(vars(one)["_modules"] for one in parts)]
        places += [
            vars(kind) for part in parts for kind in type(part).__mro__ if kind.__module__ == self.module.__name__
        ]
        texts: list[Any] = []
        for code in codes:
            texts += code.co_consts
            for one in [place[name] for name in code.co_names for place in places if name in place]:
                one = inspect.unwrap(one) if isinstance(one, FUNCTION) else one
                if isinstance(one, FUNCTION) and one.__globals__ is vars(self.module):
                    codes += [one.__code__] if one.__code__ not in codes else []
                elif isinstance(one, (dict, torch.nn.ModuleDict, tuple, list, set, frozenset)):
                    texts += one
                elif isinstance(one, str):
                    texts.append(one)
            codes += [one for one in code.co_consts if inspect.iscode(one) and one not in codes]
        texts += [one for text in texts if isinstance(text, (tuple, frozenset)) for one in cast("list[Any]", text)]
        return list(
            dict.fromkeys(one for one in texts if isinstance(one, str) and "\n" not in one and 0 < len(one) <= 20)
        )

    def bind(self, parameters: list[inspect.Parameter], example: dict[Any, Any]) -> list[inspect.Parameter]:
        """Gives positional examples the names of the parameters."""
        for place, parameter in enumerate(parameters):
            if place in example:
                example[parameter.name] = example.pop(place)
        unknown = [key for key in example if key not in [one.name for one in parameters]]
        if unknown:
            raise Unusable(f"example_inputs() gives `{unknown[0]}`, which the call does not take")
        return parameters

    def example(self) -> dict[Any, Any]:
        """What `example_inputs()` of the file gives, or that for this function, by name or place."""
        own = getattr(self.module, f"example_inputs_{self.name}", None)
        maker = own or getattr(self.module, "example_inputs", None)
        if maker is None:
            return {}
        given = maker()
        if isinstance(given, dict):
            return dict(cast("dict[str, Any]", given))
        values = cast("list[Any]", given) if isinstance(given, (tuple, list)) else [given]
        return dict(enumerate(values))

    def constructor(self, found: Any) -> None:
        """Makes an instance, and finds the parameter that a length is given for."""
        maker = getattr(self.module, "example_module", None)
        if maker is not None:
            self.instance = maker()
        else:
            signature = inspect.signature(found)
            needed = [
                one
                for one in signature.parameters.values()
                if one.default is inspect.Parameter.empty
                and one.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            ]
            if len(needed) > 1 or (needed and needed[0].annotation not in (int, "int", inspect.Parameter.empty)):
                names = ", ".join(f"`{one.name}`" for one in needed)
                raise Unusable(
                    f"{self.name} is made with {names}, which cannot be guessed: define `example_module()` in the file, "
                    "which returns an instance"
                )
            self.length_parameter = needed[0].name if needed else None
            self.made_with = [
                f"{one.name}={one.default!r}"
                for one in signature.parameters.values()
                if one.default is not inspect.Parameter.empty
            ]
            self.instance = self.made(found)
        self.settle()

    def made(self, found: Any) -> Any:
        """An instance for the first of some lengths that its constructor accepts."""
        if self.length_parameter is None:
            return found()
        refusal = None
        for length in SIZES:
            try:
                return found(**{self.length_parameter: length})
            except (ValueError, RuntimeError, AssertionError) as problem:
                refusal = refusal or problem
        raise refusal or ValueError(f"{self.name} accepts no length")

    def settle(self) -> None:
        self.instance = self.instance.train(self.trains)
        self.state = {key: value.detach() for key, value in self.instance.named_parameters()}
        buffers = dict(self.instance.named_buffers())
        self.buffers = set(buffers)
        self.state |= buffers

    def resize(self, length: int) -> None:
        """Makes the module for another length; nothing happens to what has none."""
        if self.length_parameter is not None:
            self.instance = self.found(**{self.length_parameter: length})
            self.settle()

    def buffers_in(self, dtype: torch.dtype, taken: list[str]) -> dict[str, Tensor]:
        """The floating-point buffers in a dtype, as `Module.to()` makes them, but for those that a call is given as tensors."""
        found = {key: self.state[key] for key in sorted(self.buffers - set(taken))}
        return {key: one.to(dtype) for key, one in found.items() if one.is_floating_point()}

    def tensors(self) -> dict[str, Tensor]:
        """The parameters and buffers that a module has now, those out of its state dict included."""
        return {**dict(self.instance.named_parameters()), **dict(self.instance.named_buffers())}

    def restore(self, values: dict[str, Tensor]) -> None:
        """Gives parameters and buffers these values again."""
        for key, value in values.items():
            owner, _, name = key.rpartition(".")
            part = self.instance.get_submodule(owner)
            if key in self.buffers:
                part._buffers[name] = value.clone()
            else:
                part._parameters[name].data = value.clone()
        self.settle()

    def slots(self) -> list[Parameter]:
        """What tensors are given for: those of the call, then the module's own."""
        own = [Parameter(key, "tensor", optional=key in self.buffers) for key in self.state]
        return [one for one in self.parameters if one.kind == "tensor"] + own

    def value_of(self, one: Parameter, given: dict[str, Any], numbers: dict[str, Any]) -> Any:
        """Argument for a parameter."""
        if one.kind == "tensor":
            return given.get(one.name, one.value)
        value = numbers.get(one.name, one.value)
        first = next(iter(given.values()))
        if one.kind == "last-length":
            return (first.shape[-1],)
        if value is None and one.kind in ("float", "int", "bool"):
            # Required, and no scalar of the operation: what changes nothing in most functions, or a length.
            return {"float": 1.0, "int": first.shape[-1] if first.dim() else 1, "bool": False}[one.kind]
        return value

    def callable(
        self, names: list[str], numbers: dict[str, Any], changed: dict[str, Any] | None = None
    ) -> Callable[..., Any]:
        """A function of the tensors of these slots, in this order; `numbers` are passed by name, as `changed` in place of
        what a parameter or a tensor of the module has."""
        subject, replaced = self, changed or {}

        def arguments(tensors: tuple[Tensor, ...]) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
            given = dict(zip(names, tensors))
            positional: list[Any] = []
            by_name: dict[str, Any] = {}
            named = False
            for one in subject.parameters:
                value = replaced[one.name] if one.name in replaced else subject.value_of(one, given, numbers)
                is_given = one.name in given or one.name in numbers or one.name in replaced or one.pinned
                left_out = one.optional and not is_given
                named = named or one.keyword or left_out
                if left_out and one.kind != "fixed":
                    continue
                if named:
                    by_name[one.name] = value
                else:
                    positional.append(value)
            held = {**given, **replaced}
            return positional, by_name, {key: held[key] for key in subject.state if key in held}

        if not self.is_module:

            class Called(torch.nn.Module):
                def forward(self, *tensors: Tensor) -> Any:
                    positional, by_name, _ = arguments(tensors)
                    return subject.found(*positional, **by_name)

            return Called()

        class Held(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = [subject.instance]

            def forward(self, *tensors: Tensor) -> Any:
                positional, by_name, state = arguments(tensors)
                return torch.func.functional_call(self.inner[0], state, tuple(positional), by_name)

        return Held()
