"""The service describes itself whole: words, examples, and the one shape of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.service.described import document

DOCUMENT: dict[str, Any] = document()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def referred(node: Any) -> Iterator[str]:
    """The names of all schemas that ``node`` refers to, however deep."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.rpartition("/")[2]
            else:
                yield from referred(value)
    elif isinstance(node, list):
        for value in node:
            yield from referred(value)


def has_example(node: Any) -> bool:
    """Whether ``node``, or what it refers to, shows a value."""
    names, seen = list(referred(node)), set()
    text = str(node)
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            text += str(SCHEMAS[name])
            names += referred(SCHEMAS[name])
    return "'example" in text or "'const'" in text or "'enum'" in text


def test_a_route_says_what_it_does_and_shows_what_it_takes_and_gives() -> None:
    for name, operation in OPERATIONS.items():
        assert operation["summary"], name
        assert len(operation["description"]) > 20, name
        for one in operation.get("parameters", []):
            told = one.get("description") or one["schema"].get("description")
            assert told or one["in"] != "query", f"{name}: {one['name']}"
        shown = [operation.get("requestBody", {})]
        shown += [one for status, one in operation["responses"].items() if status[0] == "2"]
        for body in shown:
            content = body.get("content", {})
            assert "application/json" not in content or has_example(content), name


def test_every_error_of_a_route_is_a_problem() -> None:
    for name, operation in OPERATIONS.items():
        errors = {s: r for s, r in operation["responses"].items() if s[0] in "45"}
        assert "422" in errors, name
        for response in errors.values():
            assert response["description"], name
            (kind, content), *more = response["content"].items()
            assert (kind, more) == ("application/problem+json", []), name
            (shape,) = referred(content)
            assert set(SCHEMAS["ProblemDetails"]["required"]) <= set(SCHEMAS[shape]["required"])


def test_all_bodies_are_described_and_the_frameworks_own_shape_of_errors_is_gone() -> None:
    assert set(referred(DOCUMENT)) <= set(SCHEMAS)
    assert "HTTPValidationError" not in SCHEMAS
    assert [name for name, schema in SCHEMAS.items() if not schema.get("description")] == []


def test_every_operation_has_a_name_that_functions_of_generated_clients_can_have() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){0,2}", name)] == []
    asked = {one["name"] for each in OPERATIONS.values() for one in each.get("parameters", ())}
    assert "params" not in asked, "which generated functions call a variable of their own"
