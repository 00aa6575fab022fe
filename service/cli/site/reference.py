"""The references of the site as Markdown, made from the code: commands, routes, Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
PYTHON = """\
# Python reference

From the docstrings. The guides: [client.md](../client.md) for a service,
[search.md](../search.md) for samplers and executors, [adding-a-kernel.md](../adding-a-kernel.md).

## Tuning in this process

::: tuner.jobs.tuning
    options:
      members: [tune, tune_pipeline, submit, run, find_problem]

::: tuner.jobs.job_result

## A service

::: service.client

## Kernels, samplers, measurers, stores

::: tuner.kernels.kernel

::: tuner.search.samplers.sampler

::: tuner.codegen.generator

::: tuner.measure.measurer

::: tuner.executor.executor

::: tuner.keeping.store

## Errors

::: tuner.errors
"""


def reference_pages() -> dict[str, str]:
    """Markdown by its place in the site."""
    return {
        "reference/commands.md": commands_page(),
        "reference/routes.md": routes_page(),
        "reference/python.md": PYTHON,
    }


def commands_page() -> str:
    """Every command with its options, written by the generator of ``typer utils docs``."""
    import typer
    from typer.cli import get_docs_for_click

    from service.cli.app import app

    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="hvxtune")
    _fill_choices(command, context)
    text = get_docs_for_click(obj=command, ctx=context, name="hvxtune", title="Command reference")
    return text.replace("\n\n", "\n\n[cli.md](../cli.md) explains them by task.\n\n", 1)


def _fill_choices(command: Any, context: Any) -> None:
    """Has each command look up the choices that its help lists, and be listed by a whole line."""
    import typer

    command.get_help(context)
    command.short_help = (command.help or "").partition("\n\n")[0]
    for name, below in getattr(command, "commands", {}).items():
        below.name = name  # groups that are imported when they are asked for have none
        _fill_choices(below, typer.Context(below, info_name=name, parent=context))


def routes_page() -> str:
    """Every route of the OpenAPI document that a service gives at ``/openapi.json``."""
    document = openapi_document()
    lines = [
        "# REST reference: routes and fields",
        "",
        "[rest.md](../rest.md) explains them; a service shows the same at `/docs`.",
    ]
    tags: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                tag = operations[method].get("tags", ["other"])[0]
                tags.setdefault(tag, []).extend(_route(method, path, operations[method]))
    for tag, written in tags.items():
        lines += ["", f"## {tag.capitalize()}", *written]
    lines += ["", "## Schemas"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines) + "\n"


def openapi_document() -> dict[str, Any]:
    """Of all routes, without a store behind them."""
    from fastapi import FastAPI

    from service import openapi
    from service.routers import include_all

    routes = FastAPI(title="hvxtune", version="1")
    openapi.install(routes)
    include_all(routes)
    return routes.openapi()


def _route(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"### `{method.upper()} {path}`", "", f"{operation.get('summary', '')}.")
    if operation.get("description"):
        yield from ("", operation["description"])
    parameters = operation.get("parameters", ())
    if parameters:
        yield from _table(
            ("parameter", "in", "type", "meaning"),
            [
                (
                    f"`{one['name']}`" + (", required" if one["required"] else ""),
                    one["in"],
                    _type(one["schema"]),
                    one.get("description", ""),
                )
                for one in parameters
            ],
        )
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        yield from ("", "Body: " + "; ".join(f"`{kind}` {_sent(body[kind])}" for kind in body))
    yield from _table(
        ("status", "answer", "meaning"),
        [
            (status, _answer(response), response.get("description", ""))
            for status, response in operation["responses"].items()
        ],
    )


def _answer(response: Mapping[str, Any]) -> str:
    return "; ".join(_sent(content) for content in response.get("content", {}).values())


def _sent(content: Mapping[str, Any]) -> str:
    return _type(content.get("schema", {}))


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"### {name}")
    if schema.get("description"):
        yield from ("", schema["description"])
    if "properties" not in schema:
        yield from ("", _type(schema))
        return
    required = schema.get("required", ())
    yield from _table(
        ("field", "type", "meaning"),
        [
            (
                f"`{field}`" + (", required" if field in required else ""),
                _type(found),
                found.get("description", ""),
            )
            for field, found in schema["properties"].items()
        ],
    )


def _type(schema: Mapping[str, Any]) -> str:
    """In words: ``array of [JobForm](#jobform)``, ``integer or null``."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return " or ".join(_type(one) for one in schema[choice])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from ("", f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|")
    for row in rows:
        cells = (" ".join(cell.split()).replace("|", r"\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
