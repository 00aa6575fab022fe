"""Misses, nearest shapes and batches of the best-query: in pieces, in turn among callers, only
while a client waits, and in a thread or in processes of their own.

Look-ups compute more than they wait. In a thread they hold the interpreter's lock, which the event
loop needs for every request: at the 99th percentile, best-queries on two shared cores took 11 ms
alone, 42 ms beside a thread with misses, and 19 ms beside a process with them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from multiprocessing import get_context, parent_process
from typing import Any, Protocol, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from db.sql_store import SqlStore
from service.admission.looker import Answered, Found, Looker, Question
from service.admission.turns import Crowd, Turns
from service.http_errors import HttpError
from tuner.codegen.fairness import Ledger
from tuner.errors import ComeBackLaterError, ToolchainError, UserError
from tuner.kernels import PIPELINE_PREFIX

_NICE = 5
"""Misses yield the processor to requests that are answered at once."""


class Lookers(Protocol):
    """Work on pieces of look-ups, ``places`` at once."""

    places: int

    def submit(self, questions: Sequence[Question]) -> Future[list[Found]]:
        """Begins with :meth:`Looker.look_up` as soon as a place is free."""
        ...

    def close(self) -> None:
        """Ends what is under way."""
        ...


class ThreadLooker:
    """One thread: for tests, and for what only this process has, such as analyses of uploads."""

    places = 1

    def __init__(self, store: SqlStore) -> None:
        self._looker = Looker(store)
        self._thread = ThreadPoolExecutor(1, "look-up")

    def submit(self, questions: Sequence[Question]) -> Future[list[Found]]:
        return self._thread.submit(copy_context().run, self._looker.look_up, questions)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._looker.close()


class ProcessLookers:
    """``places`` processes, started when first needed, and again if one is killed."""

    def __init__(self, database_url: str | None, artifacts: str | None, places: int) -> None:
        self.places = places
        self._where = (database_url, artifacts)
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, questions: Sequence[Question]) -> Future[list[Found]]:
        with self._lock:
            try:
                return self._running().submit(_look_up, questions)
            except BrokenProcessPool:
                self._pool = None
                return self._running().submit(_look_up, questions)

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
                self._pool = None

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.places,
                mp_context=get_context("spawn"),  # a fork would share connections and locks
                initializer=_start,
                initargs=self._where,
            )
        return self._pool


_looker: Looker | None = None
"""In a process of :class:`ProcessLookers`."""


def _start(database_url: str | None, artifacts: str | None) -> None:
    global _looker
    from db import open_store

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service hands on Ctrl-C
    threading.Thread(target=_leave_with_parent, name="until-parent-ends", daemon=True).start()
    os.nice(_NICE)
    _looker = Looker(open_store(database_url, artifacts=artifacts))


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(0)


def _look_up(questions: Sequence[Question]) -> list[Found]:
    if _looker is None:
        raise ToolchainError("a process for look-ups did not start", next_step="see the log")
    return _looker.look_up(questions)


MOST_UNDER_WAY = 64
EACH_UNDER_WAY = 8
"""Requests of one caller. Further ones are answered 429 at once."""
PATIENCE_S = 60.0
"""A request that is not answered by then is given up."""
EXPECTED_S = 30.0
"""Requests expected to take longer, given all that is under way, are refused at once."""
PIECE_ITEMS = 64
"""At most, of a piece of work; it ends earlier when its time is over."""
NEAREST_COSTS = 4
"""A workload that the nearest may answer counts as this many in the limits."""
_FIRST_GUESS_S = 0.005
"""For a workload; a moving average follows."""
_NEW_SHARE = 0.1
_MOST_GROWTH = 4.0
_ANALYSTS = 4
"""Threads that wait for uploads to be read: not those of the routes, as it may take long."""
_WINDOW_S = 60.0
"""How long each caller's use is remembered."""

T = TypeVar("T")
Enqueue = Callable[[Question], Answered]
"""Submits a job; ``HttpError`` or ``UserError`` if it may not be."""


class ClientGoneError(HttpError):
    """Nobody reads the answer."""

    def __init__(self) -> None:
        super().__init__(499, "the client has gone")


class Lookups:
    """Answers best-queries that are not at hand. ``app.state.lookups``; for one event loop.

    ``lookers`` do the work, except for uploads: these are read in contained processes, of which
    each server has few, and the results are kept in this process.
    """

    def __init__(self, store: SqlStore, lookers: Lookers | None = None) -> None:
        self._uploads = ThreadLooker(store)
        self._lookers: Lookers = lookers or self._uploads
        self._crowd = Crowd("best-queries", MOST_UNDER_WAY, EACH_UNDER_WAY)
        self._turns = {
            lookers: Turns(lookers.places, lookers.places, Ledger(_WINDOW_S, _WINDOW_S))
            for lookers in {self._uploads, self._lookers}
        }
        self._analysing = ThreadPoolExecutor(_ANALYSTS, "analyse")
        self._analysts = Turns(_ANALYSTS, _ANALYSTS // 2, Ledger(_WINDOW_S, _WINDOW_S))
        self._items: Counter[str] = Counter()
        self._item_s = _FIRST_GUESS_S
        self.looked_up = 0
        """Workloads, since the start."""

    @property
    def under_way(self) -> int:
        """Requests that are being answered."""
        return self._crowd.inside

    async def answer(
        self, caller: str, questions: Sequence[Question], request: Request, enqueue: Enqueue
    ) -> list[Answered | HttpError | UserError]:
        """The answers, in order; for a question that gets a job, the one of ``enqueue``, which may
        block. Ends with the client (``ClientGoneError``).

        ``ComeBackLaterError`` if too many requests are under way, or it takes too long.
        """
        async with self._crowd.enter(caller), self._counted(caller, len(questions)):
            try:
                async with asyncio.timeout(PATIENCE_S):
                    work = self._all(caller, questions, enqueue)
                    return await _while_client_waits(request, work)
            except TimeoutError:
                raise ComeBackLaterError(
                    f"{len(questions)} workloads could not be looked up in {PATIENCE_S:g} s, "
                    "because others were too",
                ) from None

    @asynccontextmanager
    async def _counted(self, caller: str, count: int) -> AsyncIterator[None]:
        """Refuses at once what would not be done in time: better than after a minute of work."""
        self._items[caller] += count
        try:
            share = self._lookers.places / len(self._items)
            expected_s = self._items[caller] * self._item_s / share
            if expected_s > EXPECTED_S and len(self._items) + self._crowd.inside > 2:
                raise ComeBackLaterError(
                    f"'{caller}' waits for {self._items[caller]} workloads, {len(self._items)} "
                    f"callers for theirs: that would take {expected_s:.0f} s",
                    wait_s=min(expected_s - EXPECTED_S, PATIENCE_S),
                    of_user=len(self._items) == 1,
                )
            yield
        finally:
            self._items[caller] -= count
            if not self._items[caller]:
                del self._items[caller]

    async def _all(
        self, caller: str, questions: Sequence[Question], enqueue: Enqueue
    ) -> list[Answered | HttpError | UserError]:
        found = await self._found(caller, questions)
        return [
            await run_in_threadpool(_enqueued, enqueue, question) if one is None else one
            for question, one in zip(questions, found, strict=True)
        ]

    async def _found(self, caller: str, questions: Sequence[Question]) -> list[Found]:
        found: list[Found] = []
        while len(found) < len(questions):
            first = questions[len(found)]
            if first.kernel.startswith(PIPELINE_PREFIX):
                found.append(await self._of_upload(caller, first))
                continue
            piece = []
            for question in questions[len(found) : len(found) + PIECE_ITEMS]:
                if question.kernel.startswith(PIPELINE_PREFIX):
                    break
                piece.append(question)
            found += await self._piece(self._lookers, caller, piece)
        return found

    async def _of_upload(self, caller: str, question: Question) -> Found:
        analyse = partial(copy_context().run, _analyse, question)
        try:
            await _held(self._analysts, caller, partial(self._analysing.submit, analyse))
        except UserError as error:
            return error
        return (await self._piece(self._uploads, caller, [question]))[0]

    async def _piece(
        self, lookers: Lookers, caller: str, questions: Sequence[Question]
    ) -> list[Found]:
        began = time.monotonic()
        try:
            found = await _held(self._turns[lookers], caller, partial(lookers.submit, questions))
        except BrokenProcessPool:
            raise ToolchainError(
                "the process that looks schedules up was ended from outside",
                next_step="ask again; if it happens again, check whether memory is short",
            ) from None
        self.looked_up += len(found)
        # The first piece waits for its process to start: no single one counts for too much.
        took_s = min((time.monotonic() - began) / len(found), _MOST_GROWTH * self._item_s)
        self._item_s += _NEW_SHARE * (took_s - self._item_s)
        return found

    def close(self) -> None:
        """Ends what is under way. Blocks."""
        self._analysing.shutdown(cancel_futures=True)
        for lookers in {self._uploads, self._lookers}:
            lookers.close()


async def _held(turns: Turns, caller: str, begin: Callable[[], Future[T]]) -> T:
    """Runs the work that ``begin`` starts in a place of ``turns``, and returns its result. The work
    keeps the place until it is done, not until this task ends, which may be cancelled."""
    give_back = await turns.take(caller)
    loop = asyncio.get_running_loop()
    try:
        work = begin()
    except BaseException:
        give_back()
        raise
    work.add_done_callback(lambda _: _call_in(loop, give_back))
    return await asyncio.wrap_future(work)


def _call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _analyse(question: Question) -> None:
    """Analyses the upload for the sizes in question: what takes long is done here, and not where
    everybody waits in line. Blocks."""
    asked = question.asked()
    with suppress(UserError):  # it cannot be tuned: a look-up finds nothing, and says so
        asked.kernel.space(asked.problem)


def _enqueued(enqueue: Enqueue, question: Question) -> Answered | HttpError | UserError:
    try:
        return enqueue(question)
    except (HttpError, UserError) as error:
        return error


async def _while_client_waits(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the client goes."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        working.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
