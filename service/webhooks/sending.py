"""Sends the messages in the outbox: signed, bounded, and again with growing pauses until they
arrive.

Whatever a receiver does, it costs one connection for :data:`TIMEOUT_S`: no redirect is followed,
and only the status of an answer is read."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from db.jobs import outbox
from db.jobs.outbox import Message
from service.settings import Network
from service.webhooks.addresses import RefusedError, pin
from tuner.errors import HvxtuneError

if TYPE_CHECKING:
    from db.sql_store import SqlStore

TIMEOUT_S = 10.0
AT_ONCE = 8
MOST_ATTEMPTS = 12
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 3600.0
"""Pauses double: twelve attempts take about two and a half hours."""
POLL_S = 1.0
_SWEEP_EVERY_S = 3600.0

_log = logging.getLogger("hvxtune.service")


class Sender:
    """Sends from a thread while it is entered; several services may do so at once."""

    def __init__(
        self,
        store: SqlStore,
        allowed: Sequence[Network] = (),
        *,
        first_pause_s: float = FIRST_PAUSE_S,
        poll_s: float = POLL_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._store = store
        self._allowed = tuple(allowed)
        self._first_pause_s = first_pause_s
        self._poll_s = poll_s
        self._timeout_s = timeout_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._sweep_at = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                if not self.send_due():
                    self._ending.wait(self._poll_s)
            except HvxtuneError as error:  # a database that is away comes back
                _log.error("webhooks: %s", error)
                self._ending.wait(self._poll_s)

    def send_due(self) -> int:
        """Sends the messages that are due; returns their number."""
        if time.monotonic() >= self._sweep_at:
            outbox.forget_old(self._store)
            self._sweep_at = time.monotonic() + _SWEEP_EVERY_S
        messages = outbox.take_due(self._store, AT_ONCE)
        if messages:
            asyncio.run(self._send_all(messages))
        return len(messages)

    async def _send_all(self, messages: Sequence[Message]) -> None:
        # Each is noted at once, so that a slow one does not have a quick one sent twice.
        await asyncio.gather(*(self._send(message) for message in messages))

    async def _send(self, message: Message) -> None:
        status, error = None, ""
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await _post(message, self._allowed)
        except RefusedError as refused:
            error = refused.message
        except TimeoutError:
            error = f"no answer within {self._timeout_s:g} s"
        except Exception as failed:  # noqa: BLE001 - whatever went wrong, it did not arrive
            error = f"cannot be reached ({type(failed).__name__})"
        if status is not None and 200 <= status < 300:
            await asyncio.to_thread(outbox.note_delivered, self._store, message, status)
            return
        error = error or f"answered {status}"
        again = self._again_at(message)
        await asyncio.to_thread(outbox.note_failed, self._store, message, status, error, again)

    def _again_at(self, message: Message) -> float | None:
        from httpx_retries import Retry

        if message.attempts >= MOST_ATTEMPTS:
            return None
        pauses = Retry(
            backoff_factor=self._first_pause_s,
            max_backoff_wait=LONGEST_PAUSE_S,
            backoff_jitter=0.5,
            attempts_made=message.attempts - 1,
        )
        return time.time() + pauses.backoff_strategy()


async def _post(message: Message, allowed: Sequence[Network]) -> int:
    """The status of the answer."""
    import httpx

    pinned = await pin(message.url, allowed)
    request_to = httpx.URL(pinned.url)
    async with (
        httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=TIMEOUT_S) as client,
        client.stream(
            "POST",
            request_to,
            content=message.body.encode(),
            headers={"Host": pinned.host, "Content-Type": "application/json", **signed(message)},
            # The certificate is that of the name, though the address is connected to.
            extensions={"sni_hostname": pinned.name},
        ) as answer,
    ):
        return answer.status_code


def signed(message: Message) -> dict[str, str]:
    """The headers of Standard Webhooks, by which a receiver verifies the sender, the content and
    the time, and recognizes repeats."""
    from standardwebhooks import Webhook

    now = datetime.now(UTC)
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(message.secret).sign(message.id, now, message.body),
    }
