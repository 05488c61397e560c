"""Graphs of torch.export in core ATen, as harness/trace.py reports them.

Owns: their form. Never: runs a function on values.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def narrow(torch: ModuleType, tensor: Tensor) -> Tensor:
    """A tensor for a graph: a copy, in float32 where it is in float64."""
    return tensor.to(torch.float32) if tensor.dtype == torch.float64 else tensor.clone()


def ops(graph: dict[str, Any]) -> list[str]:
    return sorted({node["op"] for node in graph["nodes"]})


def graph_of(torch: ModuleType, called: Callable[..., Any], tensors: Sequence[Tensor]) -> dict[str, Any]:
    """The graph of one call in core ATen, in order: operators, arguments, shapes and dtypes."""
    exported = torch.export.export(called, tuple(tensors))
    table = torch.export.default_decompositions()
    for kept in ("logsumexp.default",):
        name, overload = kept.split(".")
        table.pop(getattr(getattr(torch.ops.aten, name), overload), None)
    graph = exported.run_decompositions(table).graph
    nodes: list[dict[str, Any]] = []
    constants: list[float] = []

    def word(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return f"%{value.name}"
        if isinstance(value, (tuple, list)):
            return [word(one) for one in cast("list[Any]", value)]
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
        several = cast("list[Any]", meta) if isinstance(meta, (tuple, list)) else [meta]
        first: Any = several[0] if several else None
        is_tensor = isinstance(first, torch.Tensor)
        nodes.append(
            {
                "name": f"%{node.name}",
                "op": name,
                "arguments": [word(one) for one in node.args]
                + [f"{key}={word(one)}" for key, one in node.kwargs.items()],
                "shape": [int(one) for one in first.shape] if is_tensor else None,
                "dtype": str(first.dtype).removeprefix("torch.") if is_tensor else None,
            }
        )
    return {"nodes": nodes, "constants": list(dict.fromkeys(constants))}
