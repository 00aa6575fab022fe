"""Answers to the best-query: chosen among the stored rows, validated, and kept while they hold.

An answer is a function of the query, of the row it is made from, and of the code of this process.
A kept one is given again at once while nothing at all was committed to the database, and after a
commit only if its row, read anew, is equal: it can never be stale.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from db.quarantine import quarantine_row
from db.serving import Lookup, ScheduleReads, ServingRow
from db.sql_store import SqlStore
from service.schedules.asked import Asked, read_plain
from service.schedules.forms import exact_text
from service.schedules.validation import Validator
from tuner.candidate import Problem
from tuner.contract import Contract
from tuner.errors import StoreError

_KEPT_ANSWERS = 16_384
"""At some 3 kB each: 50 MB."""
_log = logging.getLogger("hvxtune.service")


@dataclass(frozen=True)
class Answer:
    """A whole answer, ready to send. ``etag`` changes whenever the body does."""

    body: bytes
    etag: str
    headers: tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True)
class _Kept:
    """Few objects each: the garbage collector visits all of them at times."""

    lookup: Lookup
    row: ServingRow
    version: int
    answer: Answer


class Answers:
    """Finds and keeps answers. ``app.state.answers``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.reads = ScheduleReads(store)
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()

    @cached_property
    def validator(self) -> Validator:
        """What is wrong with rows, and what is known of it."""
        return Validator(self._store.files)

    def plain(self, query: bytes) -> Answer | None:
        """The exact answer to a plain query string, within microseconds; ``None`` where that
        takes more (an error, a miss, a fault to note, another database than SQLite).

        Only from the thread of the event loop.
        """
        if not self.reads.in_process:
            return None
        version = self.reads.version()  # before the rows: a commit in between is then noticed
        kept = self._kept.get(query)
        if kept is not None and kept.version == version:
            self._kept.move_to_end(query)
            return kept.answer
        if kept is not None and self.reads.first_now(kept.lookup) == kept.row:
            kept.version = version
            return kept.answer
        asked = read_plain(query)
        if asked is None:
            return None
        lookup = asked.lookup
        row = self.reads.first_now(lookup)
        if row is None or self.validator.fault(row, stored_under(row, asked)):
            self._kept.pop(query, None)
            return None
        answer = answer_of(exact_text(row, stored_under(row, asked), asked))
        self._kept[query] = _Kept(lookup, row, version, answer)
        if len(self._kept) > _KEPT_ANSWERS:
            self._kept.popitem(last=False)
        return answer

    def exact(self, asked: Asked) -> str | None:
        """The best valid schedule of the very workload, as JSON text. Quarantines those that are
        not valid on the way. Blocks."""
        for row in self.reads.rows(asked.lookup):
            problem = stored_under(row, asked)
            fault = self.validator.fault(row, problem)
            if not fault:
                return exact_text(row, problem, asked)
            self.set_aside(row, fault)
        return None

    @staticmethod
    def config_of(row: ServingRow) -> dict[str, Any]:
        """The config in ``row``."""
        values: dict[str, Any] = json.loads(row.config)
        return values

    def set_aside(self, row: ServingRow, reason: str) -> None:
        """Quarantines a schedule. A database that cannot be written to does not stop answers."""
        _log.warning("schedule %s is quarantined: %s", row.public_id, reason)
        try:
            quarantine_row(self._store, row, reason)
        except StoreError as error:
            _log.error("schedule %s could not be quarantined: %s", row.public_id, error)


def stored_under(row: ServingRow, asked: Asked) -> Problem:
    """The problem that ``row``, found for ``asked``, is stored under: its contract may be weaker
    than the asked one."""
    problem = asked.problem
    if row.contract == problem.contract:
        return problem
    return replace(problem, contract=Contract(row.contract))


def answer_of(text: str) -> Answer:
    """The answer with the JSON ``text`` as its body."""
    body = text.encode()
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = (
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"etag", etag.encode()),
        # Another schedule may be the best in a moment: ask each time, and get a 304.
        (b"cache-control", b"private, no-cache"),
    )
    return Answer(body, etag, headers)
