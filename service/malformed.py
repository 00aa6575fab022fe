"""What is wrong with a request that does not fit its route, in words a sender can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError

_SHOULD_BE = "Input should be "
_MOST_SHOWN = 80


def words_of(error: RequestValidationError, request: Request) -> tuple[str, str, str]:
    """The message, what is accepted, and the next step, for the first field that is wrong."""
    first = error.errors()[0]
    place: Sequence[Any] = first["loc"]
    name = ".".join(str(part) for part in place[1:]) or str(place[0])
    see = "see /docs for what each field takes"
    if first["type"] == "extra_forbidden":
        known = sorted(set(_fields_beside(place, request)))
        near = difflib.get_close_matches(str(place[-1]), known, n=1)
        next_step = f"did you mean {near[0]}?" if near else see
        return f"{name} is no field of this {place[0]}", ", ".join(known), next_step
    if first["type"] == "missing":
        return f"{name} is missing", "", see
    message: str = first["msg"]
    given = repr(first.get("input"))[:_MOST_SHOWN]
    if message.startswith(_SHOULD_BE):
        return f"{name} is {given}", message.removeprefix(_SHOULD_BE), see
    return f"{name}: {message} (given {given})", "", see


def _fields_beside(place: Sequence[Any], request: Request) -> Iterator[str]:
    """The fields there are where an unknown one was given, by the OpenAPI document."""
    document = request.app.openapi()
    path = getattr(request.scope.get("route"), "path", "")
    operation = document["paths"].get(path, {}).get(request.method.lower(), {})
    if place[0] == "query":
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query":
                yield parameter["name"]
        return
    for content in operation.get("requestBody", {}).get("content", {}).values():
        nodes = list(_plain(content.get("schema", {}), document))
        for step in place[1:-1]:
            nodes = [deeper for node in nodes for deeper in _inside(node, step, document)]
        for node in nodes:
            yield from node.get("properties", ())


def _plain(node: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """``node`` without references; each of its alternatives."""
    if "$ref" in node:
        node = document["components"]["schemas"][node["$ref"].rpartition("/")[2]]
    alternatives = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    for one in alternatives:
        yield from _plain(one, document)
    if not alternatives:
        yield node


def _inside(
    node: Mapping[str, Any], step: str | int, document: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """What lies at ``step``. Pydantic names alternatives as steps too: they lead nowhere new."""
    if isinstance(step, int):
        yield from _plain(node.get("items", {}), document)
    elif step in node.get("properties", {}):
        yield from _plain(node["properties"][step], document)
    else:
        yield node
