"""A function or module of a person's file, and how it can be called.

Owns: the loading, what its parameters are (tensors, numbers, left alone), the example inputs of the file.
Never: knows a template.
"""

import importlib.util
import inspect
import os
import sys

import torch

# What a parameter without annotation and default is taken for, by its name; anything else is a tensor.
NUMBERS = {"eps": float, "epsilon": float, "variance_epsilon": float, "norm_eps": float}
LAST_AXIS = ("dim", "axis")
LAST_LENGTH = ("normalized_shape",)


class Unusable(Exception):
    """Why the file cannot be traced; the words are for people."""


class Parameter:
    """One parameter of the call: `tensor`, `float`, `int`, `bool`, or `fixed` (always `value`)."""

    def __init__(self, name: str, kind: str, value=None, optional: bool = False, keyword: bool = False) -> None:
        self.name, self.kind, self.value, self.optional, self.keyword = name, kind, value, optional, keyword


def load(path: str):
    """The person's module; its folder is importable, as it is for a script."""
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("from_reference", path)
    if spec is None:
        raise Unusable("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["from_reference"] = module
    spec.loader.exec_module(module)
    return module


def chosen(module, name: str | None):
    """The function or class that is meant: the one that is named, else the only public one that the file defines."""
    if name is not None:
        found = getattr(module, name, None)
        if not callable(found):
            raise Unusable(f"the file defines no function or class `{name}`")
        return name, found
    helpers = ("example_inputs", "example_module")
    own = [
        (key, value)
        for key, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and not key.startswith("_")
        and key not in helpers
        and (inspect.isfunction(value) or inspect.isclass(value) and issubclass(value, torch.nn.Module))
    ]
    if len(own) != 1:
        names = ", ".join(key for key, _ in own) or "none"
        raise Unusable(f"which function or module is meant? The file has: {names}. Write FILE.py:NAME")
    return own[0]


def kind_of(parameter: inspect.Parameter, given: bool, value) -> Parameter:
    """What a parameter of a signature is."""
    name, default = parameter.name, parameter.default
    keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    if given:
        if isinstance(value, torch.Tensor):
            return Parameter(name, "tensor", keyword=keyword)
        default = value
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
        if type(default) is kind and not given:
            return Parameter(name, kind.__name__, default, optional=True, keyword=keyword)
    if default is None and not given:
        return Parameter(name, "tensor", optional=True, keyword=keyword)
    return Parameter(name, "fixed", default, optional=True, keyword=keyword)


class Subject:
    """What is traced: a function, or a module whose parameters are tensors of the call, too."""

    def __init__(self, path: str, name: str | None) -> None:
        self.module = load(path)
        self.name, found = chosen(self.module, name)
        self.is_module = inspect.isclass(found)
        self.lengths: list[int] = []
        self.length_parameter = None
        self.dropped: list[str] = []
        self.state: dict[str, torch.Tensor] = {}
        self.found = found
        self.instance = None
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
            self.lengths += [one for one in value if isinstance(one, int)] if isinstance(value, (tuple, list)) else []
        for value in self.state.values():
            self.lengths += list(value.shape)

    def bind(self, parameters, example):
        """Gives positional examples the names of the parameters."""
        for place, parameter in enumerate(parameters):
            if place in example:
                example[parameter.name] = example.pop(place)
        unknown = [key for key in example if key not in [one.name for one in parameters]]
        if unknown:
            raise Unusable(f"example_inputs() gives `{unknown[0]}`, which the call does not take")
        return parameters

    def example(self) -> dict:
        """What `example_inputs()` of the file gives, by name or place."""
        maker = getattr(self.module, "example_inputs", None)
        if maker is None:
            return {}
        given = maker()
        if isinstance(given, dict):
            return dict(given)
        given = given if isinstance(given, (tuple, list)) else [given]
        return dict(enumerate(given))

    def constructor(self, found) -> None:
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
            if len(needed) > 1 or needed and needed[0].annotation not in (int, "int", inspect.Parameter.empty):
                names = ", ".join(f"`{one.name}`" for one in needed)
                raise Unusable(
                    f"{self.name} is made with {names}, which cannot be guessed: define `example_module()` in the file, "
                    "which returns an instance"
                )
            self.length_parameter = needed[0].name if needed else None
            self.instance = found(**{one.name: 16 for one in needed})
        self.settle()

    def settle(self) -> None:
        self.instance = self.instance.eval()
        self.state = {key: value.detach() for key, value in self.instance.named_parameters()}

    def resize(self, length: int) -> None:
        """Makes the module for another length; nothing happens to what has none."""
        if self.length_parameter is not None:
            self.instance = self.found(**{self.length_parameter: length})
            self.settle()

    def slots(self) -> list[Parameter]:
        """What tensors are given for: those of the call, then the module's own."""
        own = [Parameter(key, "tensor") for key in self.state]
        return [one for one in self.parameters if one.kind == "tensor"] + own

    def callable(self, names: list[str], numbers: dict):
        """A function of the tensors of these slots, in this order; `numbers` are passed by name."""
        subject = self

        def arguments(tensors):
            given = dict(zip(names, tensors))
            first = next(iter(given.values()))
            positional, by_name, named = [], {}, False
            for one in subject.parameters:
                value = given.get(one.name, one.value) if one.kind == "tensor" else numbers.get(one.name, one.value)
                if one.kind == "last-length":
                    value = (first.shape[-1],)
                left_out = one.optional and one.name not in given and one.name not in numbers
                named = named or one.keyword or left_out
                if left_out and one.kind != "fixed":
                    continue
                if named:
                    by_name[one.name] = value
                else:
                    positional.append(value)
            state = {key: given[key] for key in subject.state if key in given}
            return positional, by_name, state

        if not self.is_module:

            class Called(torch.nn.Module):
                def forward(self, *tensors):
                    positional, by_name, _ = arguments(tensors)
                    return subject.found(*positional, **by_name)

            return Called()

        class Held(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = [subject.instance]

            def forward(self, *tensors):
                positional, by_name, state = arguments(tensors)
                return torch.func.functional_call(self.inner[0], state, tuple(positional), by_name)

        return Held()
