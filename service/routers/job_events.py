"""What happens to a job, as it happens: server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from db.jobs.feed import event_counts
from db.sql_store import SqlStore
from service.app import store_of
from service.auth import Scope, require
from service.job_feed import JobFeed
from service.job_forms import peak_of, told_json
from service.openapi import problems
from service.routers.jobs import find_job
from service.schemas.jobs import EventsQuery
from tuner.errors import UserError
from tuner.records.trial import Job

router = APIRouter(prefix="/v1", tags=["jobs"])

KEEP_ALIVE_S = 15.0
"""A comment is sent after so long without an event, so that proxies keep the connection."""

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
    dependencies=[Depends(require(Scope.READ))],
)
async def events(
    job: str,
    request: Request,
    query: Annotated[EventsQuery, Query()],
    store: Annotated[SqlStore, Depends(store_of)],
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
    peak = peak_of(job)
    # At once, so that a client knows it is connected before the first event.
    yield format_sse_event(comment=f"events of job {job.id} after {after}")
    async with aclosing(feed.follow(job.id, after, KEEP_ALIVE_S)) as batches:
        async for batch in batches:
            if not batch:
                yield KEEPALIVE_COMMENT
            for told in batch:
                yield format_sse_event(
                    event=told.event.kind,
                    data_str=json.dumps(told_json(told, peak), separators=(",", ":")),
                    id=str(told.event.sequence),
                )
