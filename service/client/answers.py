"""Requests and replies as plain values, and the meaning of a reply."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.errors import (
    HvxtuneError,
    InternalError,
    NotStoredError,
    StoreError,
    ToolchainError,
    UserError,
)
from tuner.identity import digest_of_bytes

Json = dict[str, Any]

PROBLEM_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Request:
    """A request. ``path`` begins with ``/``; ``upload`` is a file sent as the body, ``save_to`` one
    that the body of a good reply is written to."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    upload: Path | None = None
    save_to: Path | None = None


@dataclass(frozen=True)
class Reply:
    """A reply. Names in ``headers`` are lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True)
class Failure:
    """Why no reply came, in a few words; ``refused`` if nothing listens there."""

    reason: str
    refused: bool = False


class RefusedError(UserError):
    """The service refuses the request. ``problem`` is its whole answer."""

    def __init__(self, status: int, problem: Json) -> None:
        super().__init__(
            _text(problem, "detail") or f"status {status}",
            accepted=_text(problem, "accepted"),
            next_step=_text(problem, "next_step"),
        )
        self.status = status
        self.problem = problem


class AbsentError(RefusedError, NotStoredError):
    """The service has nothing under that name, or for that question: status 404."""


class EnqueuedError(NotStoredError):
    """No schedule is stored yet; a job searches for one, submitted now or before."""

    def __init__(self, job: Json) -> None:
        name = job.get("job", "?")
        super().__init__(
            f"no schedule is stored yet; job {name} searches for one",
            next_step=f"wait for it with `hvxtune job watch {name}`, then ask again",
        )
        self.job = job


class UnreachableError(StoreError):
    """No service answers there, or it says that it cannot now."""


class ServiceFaultError(InternalError):
    """The service failed on its side."""


@dataclass(frozen=True)
class Best:
    """The best schedule for a workload, as the service describes it.

    ``from_cache`` is true if the service could not be reached (``reason`` says why) and this is
    what it answered ``age_s`` seconds ago. What :meth:`id`, :meth:`symbol` and
    :meth:`object_digest` give has been checked for its form.
    """

    document: Json
    from_cache: bool = False
    age_s: float = 0.0
    reason: str = ""

    @property
    def id(self) -> str:
        """Names the schedule, on every service."""
        return str(self.document["id"])

    @property
    def symbol(self) -> str:
        """The C function in the object."""
        return str(self.document["symbol"])

    @property
    def object_digest(self) -> str:
        """SHA-256 of the object, 64 hexadecimal digits."""
        return str(self.document["object_digest"])


def best_of(document: Any, server: str) -> Best:
    """Checks the parts of a schedule that builds rely on."""
    if not isinstance(document, dict) or not {
        "id",
        "kernel",
        "params",
        "contract",
        "target",
        "symbol",
        "object_digest",
    }.issubset(document):
        raise not_ours(server, "its answer is not a schedule")
    best = Best(document)
    if not is_digest(best.object_digest) or not best.symbol.isidentifier():
        raise not_ours(server, "its schedule names no object")
    return best


def is_digest(text: str) -> bool:
    """Whether ``text`` is 64 lower-case hexadecimal digits."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def not_ours(server: str, why: str) -> UserError:
    """The error for a server that answers, but not as the service would."""
    return UserError(
        f"{server} answers, but is not an hvxtune service of this version ({why})",
        accepted="the address that `hvxtune serve` prints",
        next_step="check --server or HVXTUNE_SERVER",
    )


def require_good(reply: Reply, server: str) -> Reply:
    """``reply``, unless it stands for an error, which is raised."""
    if reply.status < 300 or reply.status == 304:
        return reply
    if not reply.headers.get("content-type", "").startswith(PROBLEM_TYPE):
        if reply.status in (502, 503, 504):  # a proxy in front of a service that is down
            raise UnreachableError(f"{server} answers with status {reply.status}")
        raise not_ours(server, f"status {reply.status}")
    raise error_of(reply.status, json_of(reply, server))


def error_of(status: int, problem: Json) -> HvxtuneError:
    """The error that a problem document stands for."""
    if status < 500:
        return (AbsentError if status == 404 else RefusedError)(status, problem)
    kinds: dict[str, type[HvxtuneError]] = {
        "toolchain": ToolchainError,
        "internal": ServiceFaultError,
        "store": UnreachableError,
    }
    kind = kinds.get(_text(problem, "kind"), UnreachableError)
    return kind(
        f"the service: {_text(problem, 'detail') or status}",
        accepted=_text(problem, "accepted"),
        next_step=_text(problem, "next_step"),
    )


def json_of(reply: Reply, server: str) -> Any:
    """The body of ``reply`` read as JSON."""
    try:
        return json.loads(reply.content)
    except ValueError:
        raise not_ours(server, "its answer is not JSON") from None


def object_of(reply: Reply, server: str) -> Json:
    """The body of ``reply`` as a JSON object."""
    found = json_of(reply, server)
    if not isinstance(found, dict):
        raise not_ours(server, "its answer is not a JSON object")
    return found


def items_of(document: Json, server: str) -> list[Json]:
    """The ``items`` of a list."""
    items = document.get("items")
    if not isinstance(items, list):
        raise not_ours(server, "its answer is not a list")
    return items


def verified(content: bytes, digest: str, what: str) -> bytes:
    """``content`` if its SHA-256 is ``digest``; else an error that names both."""
    found = digest_of_bytes(content)
    if found != digest:
        raise StoreError(
            f"{what} has digest {found[:16]}, not {digest[:16]}: it was changed or damaged",
            next_step="nothing was written; tell the operator of the service",
        )
    return content


def stated_digest(reply: Reply) -> str | None:
    """The SHA-256 that the header ``Repr-Digest`` (RFC 9530) states, in hexadecimal digits."""
    for part in reply.headers.get("repr-digest", "").split(","):
        name, _, value = part.strip().partition("=")
        if name == "sha-256" and value.startswith(":") and value.endswith(":"):
            try:
                return base64.b64decode(value[1:-1], validate=True).hex()
            except ValueError:
                return None
    return None


def _text(problem: Json, name: str) -> str:
    value = problem.get(name)
    return value if isinstance(value, str) else ""
