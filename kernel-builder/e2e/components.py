"""Sets of steps of a graph that one kernel could compute: what stands between products, convolutions and attention.

Owns: which steps belong together. Never: changes a graph.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch.fx

#: Functions of PyTorch that stay a call of a library.
LIBRARY = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "embedding", "scaled_dot_product_attention")
#: Steps that move nothing.
VIEWS = frozenset(
    {
        "chunk",
        "contiguous",
        "detach",
        "expand",
        "expand_as",
        "flatten",
        "getattr",
        "getitem",
        "permute",
        "reshape",
        "size",
        "split",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    }
)


def is_computed(node: torch.fx.Node) -> bool:
    """Whether a step is no call of a module or of a library."""
    if node.op not in ("call_function", "call_method") or hasattr(node.target, "replaces"):
        return False
    return name_of(node) not in LIBRARY and not name_of(node).startswith("conv")


def moves_nothing(nodes: list[torch.fx.Node]) -> bool:
    """Whether all of these steps are views."""
    return all(name_of(one) in VIEWS for one in nodes)


def name_of(node: torch.fx.Node) -> str:
    """The name of the function or method that a step calls; empty for arguments, parameters and modules."""
    if node.op not in ("call_function", "call_method"):
        return ""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def components(
    graph: torch.fx.Graph, left: Iterable[str] = (), apart: Iterable[str] = ()
) -> Iterator[list[torch.fx.Node]]:
    """Sets of steps that are computed together: connected, and with no call of a module or a library between them.

    Views that come before belong to the set that uses them; several sets that use one are a single set.

    Steps named in `left` belong to no set, unless a single set uses their result; those named in `apart` belong to none.
    """
    stages: dict[torch.fx.Node, int] = {}
    groups: dict[torch.fx.Node, set[torch.fx.Node]] = {}
    for node in graph.nodes:
        before = max((stages[one] for one in node.all_input_nodes), default=0)
        # A call that returns a tuple: to take an element of it computes nothing.
        takes = node.target is operator.getitem and node.all_input_nodes and node.all_input_nodes[0] not in groups
        if takes or node.op in ("placeholder", "get_attr", "output") or node.name in left or node.name in apart:
            stages[node] = before
            continue
        if not is_computed(node):
            stages[node] = before + 1
            continue
        stages[node] = before
        group = {node}
        for one in node.all_input_nodes:
            if one in groups and stages[one] == before:
                group |= groups[one]
        for one in group:
            groups[one] = group
    for node in reversed(list(graph.nodes)):
        # An element of a tuple is taken before, since a part takes tensors only.
        if node.name in left and node.name not in apart and is_computed(node) and node.target is not operator.getitem:
            around: list[set[torch.fx.Node] | None] = [groups.get(user) for user in node.users]
            group = around[0] if around else None
            if group is not None and all(one is group for one in around):
                group.add(node)
                groups[node] = group
        if name_of(node) in VIEWS and node in groups and moves_nothing(list(groups[node])):
            users = {id(groups.get(user)): groups.get(user) for user in node.users}
            sets = [one for one in users.values() if one is not None]
            if (
                sets
                and len(sets) == len(users)
                and (len(sets) == 1 or can_be_one(graph, set[torch.fx.Node]().union(*sets), node))
            ):
                whole = set[torch.fx.Node]().union({node}, *sets)
                groups[node].discard(node)
                for one in whole:
                    groups[one] = whole
    for group in list({id(one): one for one in groups.values()}.values()):
        for node in views_of_others(graph, group):
            group.discard(node)
            groups.pop(node, None)
    seen: set[int] = set()
    for group in list(groups.values()):
        nodes = [node for node in graph.nodes if node in group]
        if id(group) not in seen and nodes and any(node.all_input_nodes for node in nodes) and not moves_nothing(nodes):
            seen.add(id(group))
            yield nodes


def can_be_one(graph: torch.fx.Graph, group: set[torch.fx.Node], view: torch.fx.Node) -> bool:
    """Whether steps that all use a view can be computed together: what they take is there before what they return is used."""
    order = {node: place for place, node in enumerate(graph.nodes)}
    whole = group | {view}
    taken = max((order[one] for node in whole for one in node.all_input_nodes if one not in whole), default=-1)
    return all(order[user] > taken for node in whole for user in node.users if user not in whole)


def views_of_others(graph: torch.fx.Graph, group: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Steps of a set that only view what the set takes, and that steps outside of it use: they are no results of the set."""
    views: set[torch.fx.Node] = set()
    found: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if (
            node in group
            and name_of(node) in VIEWS
            and all(one in views for one in node.all_input_nodes if one in group)
        ):
            views.add(node)
    for node in reversed(list(graph.nodes)):
        if node in views and any(user not in group or user in found for user in node.users):
            found.add(node)
    # A part takes tensors, not a tuple.
    found |= {node for node in views if node.target is operator.getitem and node.args[0] in found}
    return found


def owned(traced: Any) -> set[str]:
    """The submodules whose steps are in no set with steps of others."""
    mixed: set[str] = set()
    for nodes in components(traced.graph):
        owners = {traced.owners.get(node) for node in nodes}
        if len(owners) > 1:
            mixed |= {one for one in owners if one is not None}
    return set(traced.within) - mixed
