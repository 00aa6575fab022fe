"""Answers to the best-query: chosen among the stored rows, validated, and kept while they hold.

An answer is a function of the query, of the rows it is made from, and of the code of this process.
A kept one is given again at once while nothing at all was committed to the database, and after a
commit only if its rows, read anew, are equal: it can never be stale.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from db.quarantine import quarantine_row
from db.serving import ScheduleReads, ServingRow
from db.sql_store import SqlStore
from service.schedules.asked import Asked, read_plain
from service.schedules.forms import exact_json
from service.schedules.validation import Validator
from tuner.candidate import FIDELITIES, Problem
from tuner.contract import Contract
from tuner.errors import StoreError

_KEPT_ANSWERS = 16_384
"""At some 3 kB each: 50 MB."""
_RANKS = {fidelity: rank for rank, fidelity in enumerate(FIDELITIES)}
_log = logging.getLogger("hvxtune.service")


@dataclass(frozen=True)
class Answer:
    """A whole answer, ready to send. ``etag`` changes whenever the body does."""

    body: bytes
    etag: str
    headers: tuple[tuple[bytes, bytes], ...]


@dataclass
class _Kept:
    asked: Asked
    rows: tuple[ServingRow, ...]
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
        asked = kept.asked if kept is not None else read_plain(query)
        if asked is None:
            return None
        workload = asked.problem.workload.digest
        rows = self.reads.rows_now(workload, asked.target_digest, asked.cache)
        if kept is not None and kept.rows == rows:
            kept.version = version
            return kept.answer
        chosen, faults = self.choose(asked, rows)
        if chosen is None or faults:
            self._kept.pop(query, None)
            return None
        answer = answer_of(exact_json(chosen, stored_under(chosen, asked), asked))
        self._kept[query] = _Kept(asked, rows, version, answer)
        if len(self._kept) > _KEPT_ANSWERS:
            self._kept.popitem(last=False)
        return answer

    def exact(self, asked: Asked) -> dict[str, Any] | None:
        """The best valid schedule of the very workload, as JSON. Quarantines those that are not
        valid on the way. Blocks."""
        workload = asked.problem.workload.digest
        rows = self.reads.rows(workload, asked.target_digest, asked.cache)
        chosen, faults = self.choose(asked, rows)
        for row, reason in faults:
            self.set_aside(row, reason)
        if chosen is None:
            return None
        return exact_json(chosen, stored_under(chosen, asked), asked)

    def choose(
        self, asked: Asked, rows: Sequence[ServingRow]
    ) -> tuple[ServingRow | None, list[tuple[ServingRow, str]]]:
        """The first valid one of ``rows`` in the order of :func:`preferred`, and those before it
        with what is wrong with them."""
        faults: list[tuple[ServingRow, str]] = []
        for row in preferred(asked, rows):
            fault = self.validator.fault(row, stored_under(row, asked))
            if not fault:
                return row, faults
            faults.append((row, fault))
        return None, faults

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


def preferred(asked: Asked, rows: Sequence[ServingRow]) -> list[ServingRow]:
    """The rows that may answer, best first.

    The highest fidelity, then the toolchain used last: cycles are compared only within both.
    There the fewest cycles win, under whichever contract, and at the same cycles the contract
    that demands most: it is what the caller keeps anyway.
    """
    least = _RANKS[asked.min_fidelity]
    fitting = [r for r in rows if r.contract in asked.kept and _RANKS[r.fidelity] >= least]
    if len(fitting) > 1:
        fitting.sort(
            key=lambda r: (
                -_RANKS[r.fidelity],
                -r.toolchain_used_at,
                r.toolchain_digest,
                r.cycles,
                -asked.kept.index(r.contract),
            )
        )
    return fitting


def stored_under(row: ServingRow, asked: Asked) -> Problem:
    """The problem that ``row``, found for ``asked``, is stored under: its contract may be weaker
    than the asked one."""
    problem = asked.problem
    if row.contract == problem.contract:
        return problem
    return replace(problem, contract=Contract(row.contract))


def answer_of(form: dict[str, Any]) -> Answer:
    """The answer with ``form`` as its body."""
    body = json.dumps(form, separators=(",", ":")).encode()
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = (
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"etag", etag.encode()),
        # Another schedule may be the best in a moment: ask each time, and get a 304.
        (b"cache-control", b"private, no-cache"),
    )
    return Answer(body, etag, headers)
