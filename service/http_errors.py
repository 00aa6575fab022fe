"""Errors with a status of HTTP, and what each error says there; without a web framework."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from service.request_ids import current_request_id
from tuner.errors import ComeBackLaterError, HvxtuneError, InternalError, StoreError, UserError

UNKNOWN_FIELD = "unknown_field"
"""The type of Pydantic's error for a field that a body or a query does not have."""
_log = logging.getLogger("hvxtune.service")
_TITLES = {
    400: "The request cannot be understood",
    401: "No valid token",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "In conflict with what is stored",
    413: "Too large",
    415: "Unsupported media type",
    422: "The request is wrong",
    429: "Too many requests",
    500: "A fault of hvxtune",
    503: "The service cannot answer now",
}


class HttpError(HvxtuneError):
    """An error with a status, and headers, of its own; everything else maps by its class."""

    kind = "user"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        accepted: str = "",
        next_step: str = "",
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(message, accepted=accepted, next_step=next_step)
        self.status = status
        self.headers = dict(headers or {})
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        # It comes from other processes too, and an exception's own way knows one argument.
        return (HttpError, (self.status, self.message), self.__dict__)


def not_found(message: str, *, accepted: str = "", next_step: str = "", **extra: Any) -> HttpError:
    """404; ``extra`` fields are added to the common ones."""
    return HttpError(404, message, accepted=accepted, next_step=next_step, **extra)


@contextmanager
def _as_status(status: int) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise HttpError(
            status, error.message, accepted=error.accepted, next_step=error.next_step
        ) from None


def conflicts() -> AbstractContextManager[None]:
    """409 for a ``UserError`` within: what is asked does not fit what is stored."""
    return _as_status(409)


def absent() -> AbstractContextManager[None]:
    """404 for a ``UserError`` within: what is named does not exist."""
    return _as_status(404)


def status_of(error: HvxtuneError) -> int:
    """The status that says who must act: 4xx the client, 503 the operator, 500 us."""
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, UserError):
        return 422
    if isinstance(error, ComeBackLaterError):
        return 429 if error.of_user else 503
    return 500 if isinstance(error, InternalError) else 503


def body_of(error: HvxtuneError, instance: str) -> dict[str, Any]:
    """The JSON object."""
    status = status_of(error)
    extra = error.extra if isinstance(error, HttpError) else {}
    return {
        "type": f"urn:hvxtune:error:{error.kind}",
        "title": _TITLES.get(status, "Error"),
        "status": status,
        "detail": error.message,
        "instance": instance,
        "kind": error.kind,
        "accepted": error.accepted,
        "next_step": error.next_step,
        "request_id": current_request_id(),
        **extra,
    }


def for_strangers(error: HvxtuneError) -> HvxtuneError:
    """``error`` for callers without a token: it tells nothing about this machine, such as the host
    of its database. The log gets all of it."""
    if status_of(error) < 500:
        return error
    _log.error("%s", error)
    part = "database" if isinstance(error, StoreError) else "service"
    plain = HttpError(
        status_of(error),
        f"the {part} cannot be used now",
        next_step="come back later; the log of the service says what is wrong",
    )
    plain.kind = error.kind
    return plain
