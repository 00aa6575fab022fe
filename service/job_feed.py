"""Follows jobs for clients: one poller for all of them, one read of what is new in each.

The poller asks once in :data:`POLL_S`, for all followed jobs together, whether they have new
events; it reads those of each job once, however many clients follow it. A client that is further
behind than what is kept here reads the database itself until it has caught up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.concurrency import run_in_threadpool

from db.jobs.feed import Told, event_counts, told_after
from db.sql_store import SqlStore
from tuner.errors import HvxtuneError
from tuner.records.trial import JobState

POLL_S = 0.5
KEPT_EVENTS = 1000
"""Of each followed job, in memory; and read at once."""
_log = logging.getLogger("hvxtune.service")


class _Channel:
    """A followed job: its newest events, and who waits for more."""

    def __init__(self, head: int) -> None:
        self.head = head
        self.kept: deque[Told] = deque(maxlen=KEPT_EVENTS)
        self.news = asyncio.Event()
        self.followers = 0

    def add(self, told: list[Told]) -> None:
        self.kept.extend(told)
        self.head = told[-1].event.sequence
        self.wake()

    def wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def after(self, sequence: int) -> list[Told] | None:
        """What is kept above ``sequence``; ``None`` if some of it no longer is."""
        if sequence >= self.head:
            return []
        if not self.kept or self.kept[0].event.sequence > sequence + 1:
            return None
        return [told for told in self.kept if told.event.sequence > sequence]


class JobFeed:
    """The followed jobs of ``store``. Used from one event loop; ``stopping`` ends all streams."""

    def __init__(self, store: SqlStore, stopping: Callable[[], bool]) -> None:
        self._store = store
        self._stopping = stopping
        self._channels: dict[str, _Channel] = {}
        self._poller: asyncio.Task[None] | None = None

    async def follow(
        self, job_id: str, after: int, silence_s: float
    ) -> AsyncGenerator[list[Told], None]:
        """The events of a job numbered above ``after``, as they come, until it has ended.

        Yields an empty list when nothing came for ``silence_s``.
        """
        async with self._channel(job_id) as channel:
            while not self._stopping():
                news = channel.news
                told = channel.after(after)
                if told is None:
                    told = await run_in_threadpool(
                        told_after, self._store, job_id, after, KEPT_EVENTS
                    )
                if told:
                    after = told[-1].event.sequence
                    yield told
                    if ends_job(told[-1]):
                        return
                    continue
                try:
                    await asyncio.wait_for(news.wait(), silence_s)
                except TimeoutError:
                    yield []

    @asynccontextmanager
    async def _channel(self, job_id: str) -> AsyncIterator[_Channel]:
        channel = self._channels.get(job_id)
        if channel is None:
            counts = await run_in_threadpool(event_counts, self._store, [job_id])
            channel = self._channels.setdefault(job_id, _Channel(counts.get(job_id, 0)))
        channel.followers += 1
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            yield channel
        finally:
            channel.followers -= 1
            if channel.followers == 0 and self._channels.get(job_id) is channel:
                del self._channels[job_id]

    async def _poll(self) -> None:
        """Runs while somebody follows."""
        while self._channels and not self._stopping():
            try:
                await self._look()
            except HvxtuneError as error:
                _log.error("following jobs: %s", error)
            await asyncio.sleep(POLL_S)
        for channel in self._channels.values():
            channel.wake()

    async def _look(self) -> None:
        counts = await run_in_threadpool(event_counts, self._store, list(self._channels))
        for job_id, channel in list(self._channels.items()):
            while counts.get(job_id, 0) > channel.head:
                told = await run_in_threadpool(
                    told_after, self._store, job_id, channel.head, KEPT_EVENTS
                )
                if not told:
                    break
                channel.add(told)


def ends_job(told: Told) -> bool:
    """Whether nothing comes after it."""
    return told.event.kind == "state" and JobState(told.event.data["state"]).ended
