"""Answers to the best-query: chosen among the stored rows, validated, and kept while they hold.

An answer is a function of the query, of the row it is made from, and of the code of this process.
A kept one is given again at once while nothing at all was committed to the database, and after a
commit only if its row, read anew, is equal: it can never be stale.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from db.schedules.quarantine import quarantine_row
from db.schedules.serving import ScheduleReads, ServingRow, Values
from db.schedules.validation import Validator
from db.sql_store import SqlStore
from service.schedules.asked import Asked, read_plain
from service.schedules.forms import exact_text
from tuner.errors import StoreError
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem

_KEPT_ANSWERS = 16_384
"""At some 4 kB each: 64 MB."""
_MOST_SET_ASIDE = 20
"""In one query: where a kernel's space has become another, hundreds of trials may not be valid."""
_log = logging.getLogger("hvxtune.service")


class Answer(NamedTuple):
    """A whole answer. ``etag`` changes whenever the body does."""

    body: bytes
    etag: str

    def headers(self, *, unchanged: bool = False) -> list[tuple[bytes, bytes]]:
        """To be sent with it; ``unchanged`` if not the body, but that it is the same is sent."""
        always = [
            (b"etag", self.etag.encode()),
            # Another schedule may be the best in a moment: ask each time, and get a 304.
            (b"cache-control", b"private, no-cache"),
        ]
        if unchanged:
            return always
        length = b"%d" % len(self.body)
        return [(b"content-type", b"application/json"), (b"content-length", length), *always]


_Kept = tuple[int, Values, tuple[Any, ...], bytes, str]
"""A version of the database no newer than the row, the values of the lookup, the row it gave, and
the answer.

Plain tuples of plain values, all the way down: such the garbage collector looks at once and never
again. Instances of classes it visits each time, and with tens of thousands of them, that takes as
long as a hundred requests.
"""


class Answers:
    """Finds and keeps answers. ``app.state.answers``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.reads = ScheduleReads(store)
        self._kept: OrderedDict[tuple[str, bytes], _Kept] = OrderedDict()
        self._version = -1
        """Of the database, at the last look: no row that is read from then on is older."""

    @cached_property
    def validator(self) -> Validator:
        """What is wrong with rows, and what is known of it."""
        return Validator(self._store.files)

    def plain(self, query: bytes, owner: str = "") -> Answer | None:
        """The exact answer to a plain query string, within microseconds; ``None`` where that
        takes more (an error, a miss, a fault to note, another database than SQLite). ``owner`` is
        who asks, and may be given their own private schedules.

        Only from the thread of the event loop.
        """
        if not self.reads.in_process:
            return None
        asked_by = (owner, query)
        kept = self._kept.get(asked_by)
        if kept is None:
            return self._found(asked_by)
        then, values, row, body, etag = kept
        # Before the row is read: a commit in between is then noticed by the next look.
        self._version = self.reads.version()
        if then == self._version:
            self._kept.move_to_end(asked_by)
            return Answer(body, etag)
        del self._kept[asked_by]
        if self.reads.first_now(values) == row:
            self._keep(asked_by, (self._version, values, row, body, etag))
            return Answer(body, etag)
        return self._found(asked_by)

    def _found(self, asked_by: tuple[str, bytes]) -> Answer | None:
        owner, query = asked_by
        asked = read_plain(query, owner)
        if asked is None:
            return None
        values = asked.values
        found = self.reads.first_now(values)
        if found is None:
            return None
        row = ServingRow._make(found)
        problem = stored_under(row, asked)
        if self.validator.fault(row, problem, kernel=asked.kernel):
            return None
        answer = answer_of(exact_text(row, problem, asked))
        self._keep(asked_by, (self._version, values, found, *answer))
        return answer

    def _keep(self, asked_by: tuple[str, bytes], kept: _Kept) -> None:
        self._kept[asked_by] = kept
        if len(self._kept) > _KEPT_ANSWERS:
            self._kept.popitem(last=False)

    def exact(self, asked: Asked) -> str | None:
        """The best valid schedule of the very workload, as JSON text. Quarantines those that are
        not valid on the way, and looks at what took their place. Blocks."""
        seen: set[int] = set()
        while len(seen) < _MOST_SET_ASIDE:
            rows = self.reads.rows(asked.lookup)
            row = next((row for row in rows if row.id not in seen), None)
            if row is None:
                return None
            seen.add(row.id)
            problem = stored_under(row, asked)
            fault = self.validator.fault(row, problem, kernel=asked.kernel)
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
    return Problem(problem.workload, Contract(row.contract), problem.target)


def answer_of(text: str) -> Answer:
    """The answer with the JSON ``text`` as its body."""
    body = text.encode()
    return Answer(body, f'"{blake2b(body, digest_size=16).hexdigest()}"')
