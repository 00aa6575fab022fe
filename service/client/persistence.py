"""Trying again: what is worth it, after how long, and for how long altogether."""

from __future__ import annotations

import contextlib
import time

from httpx_retries import Retry

from service.client.answers import Failure, Pause, Reply, Request, Steps, UnreachableError
from tuner.errors import InternalError

RETRIED = frozenset({429, 502, 503, 504})
_POLICY = Retry(
    total=50,  # time ends it, not the count
    backoff_factor=0.1,
    max_backoff_wait=8.0,
    status_forcelist=RETRIED,
)


class Attempts:
    """The tries of one request: for at most ``patience_s`` seconds from the first."""

    def __init__(self, patience_s: float) -> None:
        self.retry = _POLICY
        self.deadline = time.monotonic() + patience_s

    def pause(self, reply: Reply | Failure) -> float | None:
        """Seconds to wait after a try that came to ``reply``; ``None`` to give up.

        What ``Retry-After`` asks for comes on top of a random part, so that clients that were
        turned away together do not come back together.
        """
        self.retry = self.retry.increment()
        seconds = self.retry.backoff_strategy()
        if isinstance(reply, Reply) and "retry-after" in reply.headers:
            with contextlib.suppress(ValueError):  # no time in it: as if it were not there
                seconds += self.retry.parse_retry_after(reply.headers["retry-after"])
        late = time.monotonic() + seconds > self.deadline
        return None if late or self.retry.is_exhausted() else seconds


def persistently(request: Request, server: str, patience_s: float) -> Steps[Reply]:
    """Sends ``request`` until it is answered with something else than "not now".

    Only for requests that may be sent twice. Returns the last reply, ``UnreachableError`` if
    there is none.
    """
    attempts = Attempts(patience_s)
    while True:
        reply = yield request
        if reply is None:
            raise InternalError("a request was answered with nothing")
        if isinstance(reply, Reply) and reply.status not in RETRIED:
            return reply
        seconds = attempts.pause(reply)
        if seconds is not None:
            yield Pause(seconds)
        elif isinstance(reply, Reply):
            return reply
        else:
            raise unreachable(server, reply)


def unreachable(server: str, failure: Failure) -> UnreachableError:
    """What is said when nothing answers."""
    return UnreachableError(
        f"no service answers at {server}: {failure.reason}",
        accepted="the address that `hvxtune serve` prints",
        next_step="check that it runs, and --server or HVXTUNE_SERVER",
    )
