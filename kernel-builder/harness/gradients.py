"""The gradient of a function as a graph of its own, for the translation to kernels.

Owns: how PyTorch's autograd is traced, which inputs have a gradient, the reference of the gradient. Never: decides what can be
translated.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx  # pyright: ignore[reportUnknownVariableType]

from bounds import MOST_OPERATORS, Bounded
from derivatives import Differentiated
from exported import Described, GraphReport, Untranslated, identifier, is_operator, table

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

    from subject import Subject

BACKWARD = '''

def {name}({arguments}):
    """The gradients of `{function}`, by PyTorch's autograd."""
    inputs = [one.detach().requires_grad_() for one in ({values},)]
    {wanted}, = inputs
    with torch.enable_grad():
        results = {function}({called})
    results = {results}
    found = torch.autograd.grad(results, inputs, [{gradients}])
    return {returned}
'''


class Reference(TypedDict):
    """A function of Python that says what a kernel computes; no text for a function of the person's file."""

    function: str
    text: str


class VariableGraph(GraphReport):
    """A graph whose floating-point arguments have one dtype of several, if `variable`; `seed` is the value of its seed."""

    variable: bool
    seed: str | None


class GradientGraph(VariableGraph):
    """The graph of a gradient, with the names of its results."""

    results: list[str]


class GradientReport(TypedDict):
    """The gradient of a function: which inputs have one, and which of them have the same."""

    graph: GradientGraph
    inputs: list[str]
    same: dict[str, str]
    reference: Reference


def joint(
    exported: ExportedProgram,
    inputs: list[Tensor],
    outputs: list[Tensor],
    wanted: list[int],
    differentiable: list[int],
) -> GraphModule:
    """The graph of the gradients of `wanted` inputs, of gradients for `differentiable` outputs and of all inputs."""

    def called(*tensors: Tensor) -> tuple[Tensor | None, ...]:
        gradients, own = tensors[: len(differentiable)], list(tensors[len(differentiable) :])
        for place in wanted:
            own[place] = own[place].detach().requires_grad_()
        # Nodes of the backward pass remember the lines of the forward pass.
        lines = torch.autograd.detect_anomaly(check_nan=False)
        bounded = Bounded(f"PyTorch computes it with more than {MOST_OPERATORS} operators")
        with torch.enable_grad(), traceback.preserve_node_meta(), lines, bounded:
            results: Any = Differentiated(exported.graph_module).run(*own)
            chosen: list[Tensor] = [results[place] for place in differentiable]
            remember_lines([one.grad_fn for one in chosen])
            return torch.autograd.grad(chosen, [own[place] for place in wanted], gradients, allow_unused=True)

    def functional(*tensors: Tensor) -> Any:
        with traceback.preserve_node_meta():
            return torch.fx.Interpreter(found).run(*tensors)

    fake = detect_fake_mode(inputs)
    assert fake is not None
    with warnings.catch_warnings(), fake, enable_python_dispatcher():
        warnings.simplefilter("ignore")
        gradients = [torch.empty_like(outputs[place]) for place in differentiable]
        found = make_fx(called)(*gradients, *inputs)
        # Autograd adds up in place; without that, every value is written once.
        pure = torch.func.functionalize(functional, remove="mutations")
        rules: Any = dict(table().items())
        found = make_fx(pure, decomposition_table=rules)(*gradients, *inputs)
    found.graph.eliminate_dead_code()
    return found


def remember_lines(functions: list[Any]) -> None:
    """Lets autograd say which forward operator it is at; without it, graphs of gradients quote no lines."""
    try:
        from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
    except ImportError:
        return
    setup_stacktrace_preservation_hooks(functions)


def differentiable_of(exported: ExportedProgram, inputs: list[Tensor], wanted: list[int]) -> list[int]:
    """The places of the results that follow from `wanted` inputs so that they have a gradient."""
    fake = detect_fake_mode(inputs)
    assert fake is not None
    # Without the dispatcher, padding asks for lengths as numbers, and they are the example's from then on.
    with fake, enable_python_dispatcher(), torch.enable_grad():
        own = [one.detach().requires_grad_(place in wanted) for place, one in enumerate(inputs)]
        results: list[Tensor] = torch.fx.Interpreter(exported.graph_module).run(*own)
    return [place for place, one in enumerate(results) if one.requires_grad]


def gradient(
    subject: Subject, exported: ExportedProgram, names: list[str], forward: VariableGraph, function: str
) -> GradientReport:
    """The graph of the gradients of a function, and its reference.

    `forward` is the report of the function's own graph, and `function` the name of its reference.
    """
    nodes = list(exported.graph.nodes)
    inputs: list[Tensor] = [node.meta["val"] for node in nodes if node.op == "placeholder"]
    returning: Any = nodes[-1].args[0]
    outputs: list[Tensor] = [node.meta["val"] for node in returning]
    kept, variable = [one["name"] for one in forward["inputs"]], forward["variable"]
    wanted = [
        place
        for place, (name, one) in enumerate(zip(names, inputs))
        if one.is_floating_point() and name not in subject.buffers and identifier(name) in kept
    ]
    own = ["out"] if len(outputs) == 1 else [f"out_{place}" for place in range(len(outputs))]
    differentiable = differentiable_of(exported, inputs, wanted)
    if not differentiable:
        raise Untranslated("no result depends on a floating-point argument in a way that has a gradient")
    seeds = [one["name"] for one in forward["inputs"] if one["value"] == forward["seed"]]
    non_negative = {one["name"] for one in forward["inputs"] if one["non_negative"]}
    graph = joint(exported, inputs, outputs, wanted, differentiable)
    nodes = list(graph.graph.nodes)
    results: Any = nodes[-1].args[0]
    described = Described(nodes, {}, subject.path)
    places = [node for node in nodes if node.op == "placeholder"]
    titles = [f"grad_{own[place]}" for place in differentiable] + [identifier(name) for name in names]
    used = {one.name for node in nodes if is_operator(node) or node.op == "output" for one in node.all_input_nodes}
    named = dict(zip(titles, places))
    if len(named) < len(titles):
        raise Untranslated("an argument has the name of a gradient")
    needed = [name for name in titles if named[name].name in used]
    gradients = titles[: len(differentiable)]
    shapes = {name: described.tensor(node.meta["val"]) for name, node in named.items()}
    # What the gradient does not read need not be kept: the reference takes zeros, in the shape of something that is kept.
    values: dict[str, str] = {}
    for name in kept:
        twin = next((one for one in gradients + needed if shapes[one] == shapes[name]), None)
        values[name] = name if name in needed or twin is None else f"torch.zeros_like({twin})"
    same: dict[str, str] = {}
    returned: dict[str, str] = {}
    for place, result in zip(wanted, results):
        name = identifier(names[place])
        twin = next((one for one, value in returned.items() if result is not None and value == result.name), None)
        if twin is not None and shapes[twin] == shapes[name]:
            same[name] = twin
        elif result is not None:
            returned[name] = result.name
    if not returned:
        raise Untranslated("no argument has a gradient")
    arguments = gradients + [name for name in kept if values[name] == name]
    backward = f"{function.removesuffix('_reference')}_backward"
    chosen = [f"results[{place}]" for place in differentiable]
    text = BACKWARD.format(
        name=backward,
        function=function,
        arguments=", ".join(arguments),
        values=", ".join(values[name] for name in returned),
        wanted=", ".join(returned),
        called=", ".join(name if name in returned else values[name] for name in kept),
        results=f"[{', '.join(chosen)}]" if len(outputs) > 1 else "[results]",
        gradients=", ".join(gradients),
        returned="found" if len(returned) > 1 else "found[0]",
    )
    return {
        "graph": {
            "function": backward,
            "inputs": [
                {"value": named[one].name, "name": one, "tensor": shapes[one], "non_negative": one in non_negative}
                for one in arguments
            ],
            "nodes": described.nodes,
            "outputs": list(returned.values()),
            "results": [f"grad_{name}" for name in returned],
            "symbols": described.lengths.used,
            "variable": variable,
            "seed": next((named[one].name for one in arguments if one in seeds), None),
        },
        "inputs": [*returned, *same],
        "same": same,
        "reference": {"function": backward, "text": text},
    }
