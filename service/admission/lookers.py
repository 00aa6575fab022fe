"""Where look-ups run: in a thread of this process, or in processes of their own.

Look-ups compute more than they wait. In a thread they hold the interpreter's lock, which the event
loop needs for every request: of best-queries on two shared cores, which took 11 ms at the 99th
percentile, the same took 42 ms beside a thread with misses and 19 ms beside a process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextvars import copy_context
from multiprocessing import get_context, parent_process
from typing import Protocol

from db.sql_store import SqlStore
from service.admission.looker import Found, Looker, Question
from tuner.errors import ToolchainError

_NICE = 5
"""Misses wait for the processor rather than whoever is answered at once."""


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
    """One thread: of tests, and for what this process keeps, as the analyses of uploads."""

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
    """``places`` processes, started when first needed, and anew if one is killed."""

    def __init__(self, database_url: str | None, places: int) -> None:
        self.places = places
        self._database_url = database_url
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
                initargs=(self._database_url,),
            )
        return self._pool


_looker: Looker | None = None
"""That of a process of :class:`ProcessLookers`."""


def _start(database_url: str | None) -> None:
    global _looker
    from db import open_store

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service to hand on
    threading.Thread(target=_leave_with_parent, name="until-parent-ends", daemon=True).start()
    os.nice(_NICE)
    _looker = Looker(open_store(database_url))


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(0)


def _look_up(questions: Sequence[Question]) -> list[Found]:
    if _looker is None:
        raise ToolchainError("a process for look-ups did not start", next_step="see the log")
    return _looker.look_up(questions)
