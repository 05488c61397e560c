"""Messages of the judge as dataclasses, and dataclasses as messages.

Owns: strict decoding: an unknown or missing field is an error that names it. Never: knows a message; `protocol*.py` do.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from protocol import VERSION


class ProtocolError(Exception):
    """A message that is not what the protocol says."""


def opening(text: str | bytes, jobs: Any) -> tuple[str, Any]:
    """The nonce and the job of the first message; `jobs` is the type of the job."""
    value = typed(dict, json.loads(text), "the first message")
    version = value.pop("protocol", None)
    if version != VERSION:
        raise ProtocolError(f"the judge speaks version {version} of the protocol, and its harness version {VERSION}")
    if value.keys() != {"nonce", "job"}:
        raise ProtocolError(f"the first message has the fields {sorted(value)}, not job and nonce")
    return typed(str, value["nonce"], "nonce"), decode(jobs, value["job"], "job")


def decode(kind: Any, value: Any, where: str) -> Any:
    """A value of JSON as a type: a dataclass, or a union of them, with lists, tuples and dicts of such in its fields."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return decoded_class(cast(type, kind), value, where)
    if origin is list:
        return [decode(arguments[0], one, f"{where}[{at}]") for at, one in enumerate(typed(list, value, where))]
    if origin is tuple:
        if len(typed(list, value, where)) != len(arguments):
            raise ProtocolError(f"{where} has {len(value)} elements, not {len(arguments)}")
        return tuple(decode(one, part, f"{where}[{at}]") for at, (one, part) in enumerate(zip(arguments, value)))
    if origin is dict:
        return {key: decode(arguments[1], one, f"{where}.{key}") for key, one in typed(dict, value, where).items()}
    if origin is Literal:
        if value not in arguments:
            raise ProtocolError(f"{where} is {value!r}, none of {', '.join(map(str, arguments))}")
        return value
    if origin in (Union, UnionType):
        return decoded_union(arguments, value, where)
    if kind is float and type(value) is int:
        return float(value)
    return typed(kind, value, where)


def typed(kind: type, value: Any, where: str) -> Any:
    """The value, which must be of this very type."""
    if type(value) is not kind:
        raise ProtocolError(f"{where} is a {type(value).__name__}, not a {kind.__name__}")
    return value


def decoded_union(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    """The value as the one of several types that it is: by its tag, or by its Python type."""
    if value is None and NoneType in choices:
        return None
    kinds: list[Any] = [kind for kind in choices if kind is not NoneType]
    if len(kinds) == 1:
        return decode(kinds[0], value, where)
    if not all(map(is_dataclass, kinds)):
        if type(value) not in kinds:
            raise ProtocolError(
                f"{where} is a {type(value).__name__}, none of {', '.join(one.__name__ for one in kinds)}"
            )
        return value
    tags = {tag_of(kind)[1]: kind for kind in kinds}
    key, _ = tag_of(kinds[0])
    given = typed(dict, value, where)
    if key not in given:
        raise ProtocolError(f"{where} has no field `{key}`")
    if given[key] not in tags:
        raise ProtocolError(f"{where}.{key} is {given[key]!r}, none of {', '.join(tags)}")
    return decoded_class(tags[given[key]], given, where)


def tag_of(kind: Any) -> tuple[str, str]:
    """The field that tells a class from the others of its union, and its value; empty for one that is in none."""
    return getattr(kind, "TAG", ("", ""))


@cache
def types_of(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields, by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(cast(Any, kind))}


def decoded_class(kind: type, value: Any, where: str) -> Any:
    """An object of JSON as a dataclass."""
    types = types_of(kind)
    given = {key for key in typed(dict, value, where) if key != tag_of(kind)[0]}
    for key in sorted(given - types.keys()):
        raise ProtocolError(f"{where} has the unknown field `{key}`")
    for key in types:
        if key not in given:
            raise ProtocolError(f"{where} has no field `{key}`")
    return kind(**{key: decode(one, value[key], f"{where}.{key}") for key, one in types.items()})


def encode(value: Any) -> Any:
    """What JSON has for a dataclass, and for whatever its fields hold."""
    if is_dataclass(value) and not isinstance(value, type):
        key, tag = tag_of(type(value))
        found: dict[str, Any] = {key: tag} if key else {}
        return found | {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: encode(one) for key, one in cast("dict[str, Any]", value).items()}
    return value


def line(nonce: str, event: Any) -> bytes:
    """An event as a line to the judge."""
    return (json.dumps({"nonce": nonce, **encode(event)}) + "\n").encode()
