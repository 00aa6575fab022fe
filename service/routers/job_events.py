"""The events of a job as they happen: server-sent events.

One poller serves all clients. It asks once in :data:`POLL_S`, for all followed jobs together,
whether they have new events, and reads those of each job once, however many clients follow it. A
client that is further behind than what is kept here reads the database itself until it has caught
up.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from db.jobs.events import Told, event_counts, told_after
from db.sql_store import SqlStore
from service.app_state import READS, Store
from service.json_forms import job_roofline, told_json
from service.openapi import problems
from service.reads import find_job
from service.schemas.jobs import EventsQuery
from tuner.errors import HvxtuneError, UserError
from tuner.records.trial import Job, JobState

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
        """The events kept above ``sequence``; ``None`` if some are gone."""
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


router = APIRouter(prefix="/v1", tags=["jobs"])

KEEP_ALIVE_S = 15.0
"""After this long without an event a comment is sent, so that proxies keep the connection."""

_EXAMPLE = """\
event: trial
data: {"trial": 7, "outcome": "ok", "cycles": 18240, "finished": 8, "best_cycles": 17100}
id: 9

event: state
data: {"state": "done", "paused": false, "note": ""}
id: 105
"""


@router.get(
    "/jobs/{job}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events: `trial` (a trial, with `finished` and `best_cycles` as of "
            "then), `promotion` (one came back: `trial`, `outcome`, `cycles`), `estimate` (of the "
            "remaining gain: `expected`, `bound`) and `state` (`state`, `paused`, `note`). The "
            "stream ends with the event that ends the job.",
            "content": {
                "text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE},
            },
        },
        204: {"description": "The job has ended, and the event that ended it was seen."},
        **problems(404),
    },
    dependencies=READS,
)
async def job_events(
    job: str,
    request: Request,
    query: Annotated[EventsQuery, Query()],
    store: Store,
    last_event_id: Annotated[
        str | None, Header(max_length=20, description="The `id` of the last event seen.")
    ] = None,
) -> Response:
    """All events of the job from its beginning, or those after `Last-Event-ID`, and then each as
    it happens. Which conductor runs the job, and whether one is restarted, does not matter."""
    after = _after(last_event_id, query.after)
    found = await run_in_threadpool(find_job, store, job)
    if found.state.ended:
        counts = await run_in_threadpool(event_counts, store, [found.id])
        if after >= counts.get(found.id, 0):
            return Response(status_code=204)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return EventSourceResponse(_stream(_feed_of(request), found, after), headers=headers)


def _after(header: str | None, query: int | None) -> int:
    if not header:
        return query or 0
    if not (header.isascii() and header.isdigit()):
        raise UserError(
            f"Last-Event-ID '{header}'",
            accepted="the id of an event of this job",
            next_step="leave it out to begin with the first event",
        )
    return min(int(header), 2**62)


def _feed_of(request: Request) -> JobFeed:
    """The application's only one, made when somebody follows the first job. It reads for all of its
    followers, each of whom was found to see the job."""
    state = request.app.state
    if not hasattr(state, "job_feed"):
        state.job_feed = JobFeed(state.store, state.stopping.is_set)
    feed: JobFeed = state.job_feed
    return feed


async def _stream(feed: JobFeed, job: Job, after: int) -> AsyncIterator[bytes]:
    roofline = job_roofline(job)
    # At once, so that a client knows it is connected before the first event.
    yield format_sse_event(comment=f"events of job {job.id} after {after}")
    async with aclosing(feed.follow(job.id, after, KEEP_ALIVE_S)) as batches:
        async for batch in batches:
            if not batch:
                yield KEEPALIVE_COMMENT
            for told in batch:
                yield format_sse_event(
                    event=told.event.kind,
                    data_str=json.dumps(told_json(told, roofline), separators=(",", ":")),
                    id=str(told.event.sequence),
                )
