"""The OpenAPI document that FastAPI derives, with the one shape of errors and the token."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.auth.guard import OPEN_PATHS
from service.problem_details import MEDIA_TYPE
from service.schemas.common import ProblemDetails

DESCRIPTION = """\
Submit tuning jobs, follow them, and fetch the best schedule of a workload as a Hexagon object.

Every route but `/healthz` and `/readyz` needs `Authorization: Bearer hvx_...`. Every error is a
problem detail (RFC 9457) that says what is wrong, what is accepted and what to do next. Fields
carry their units; times are Unix seconds. Lists come in pages: pass `next_cursor` back as
`cursor`.
"""

_SCHEME = "token"
_FRAMEWORKS = "#/components/schemas/HTTPValidationError"
_DESCRIPTIONS = {
    401: "No token, or an unknown, expired or revoked one.",
    403: "The token lacks the scope.",
    404: "Not found; says how to list what exists.",
    409: "In conflict with what is stored.",
    413: "The body is too large.",
    415: "The body is of a type that is not accepted here.",
    422: "The request is wrong; names the value and what is accepted.",
    429: "Too many requests, or a quota is used up; `Retry-After` says when to come back.",
    500: "A fault of hvxtune.",
    501: "This service lacks an optional part.",
    503: "The database or a part of the toolchain is unavailable.",
}
_ALWAYS = (422, 503)
_GUARDED = (401, 403, 429)


def install(app: FastAPI) -> None:
    """Makes ``app`` serve it at ``/openapi.json``, and show it at ``/docs``."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """``responses`` of a route: errors it may give beside those that any route may."""
    return {status: {"description": _DESCRIPTIONS[status]} for status in statuses}


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=DESCRIPTION,
        license_info=app.license_info,
        routes=app.routes,
    )
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    own = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(own.pop("$defs", {}))
    schemas["ProblemDetails"] = own
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own shape of a 422
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        _SCHEME: {"type": "http", "scheme": "bearer", "description": "`hvx_<id>_<secret>`"}
    }
    for path, operations in made["paths"].items():
        for operation in operations.values():
            _add_problems(operation, guarded=path not in OPEN_PATHS)
    return made


def _add_problems(operation: dict[str, Any], *, guarded: bool) -> None:
    responses = operation["responses"]
    of_bodies = (413,) if "requestBody" in operation else ()
    for status in (*_ALWAYS, *of_bodies, *(_GUARDED if guarded else ())):
        responses.setdefault(str(status), {})
    if guarded:
        operation["security"] = [{_SCHEME: []}]
    for status, response in responses.items():
        if status[0] in "45":
            response["description"] = _DESCRIPTIONS.get(int(status), response.get("description"))
            response["content"] = {MEDIA_TYPE: {"schema": _problem_schema(response)}}
    operation["responses"] = dict(sorted(responses.items()))


def _problem_schema(response: dict[str, Any]) -> dict[str, Any]:
    """The route's own schema (a problem with more fields), or the common one."""
    for content in response.get("content", {}).values():
        schema: dict[str, Any] = content.get("schema", {})
        if schema.get("$ref", _FRAMEWORKS) != _FRAMEWORKS:
            return schema
    return {"$ref": "#/components/schemas/ProblemDetails"}
