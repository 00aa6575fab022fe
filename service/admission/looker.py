"""Answers to many best-queries at once, as long as a piece of work may take.

One thread of one process works with a :class:`Looker`: what it keeps needs no locks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from db.pipelines import KernelName
from db.schedules.serving import FirstRows, ServingRow, quarantined, values_of
from db.sql_store import SqlStore
from service.http_errors import HttpError, not_found
from service.schedules import on_miss
from service.schedules.asked import Asked, ask
from service.schedules.forms import exact_text
from service.schedules.neighbours import Neighbours
from tuner.errors import UserError
from tuner.keeping.best import other_targets
from tuner.records.candidate import CacheState, Fidelity, Preference

PIECE_S = 0.05
"""No further look-up of a piece begins after this: others wait, or the client has gone."""


@dataclass(frozen=True)
class Question:
    """One best-query, as plain values that can go to another process."""

    kernel: KernelName
    params: Mapping[str, int]
    target: str
    contract: str
    cache: CacheState
    min_fidelity: Fidelity
    prefer: Preference
    allow_nearest: bool
    enqueue: bool
    owner: str
    """The owner whose private schedules may answer as well as the shared ones."""

    def asked(self) -> Asked:
        """The query, read and checked; ``UserError`` says what is wrong with it."""
        return ask(
            self.kernel,
            self.params,
            target=self.target,
            contract=self.contract,
            cache=self.cache,
            min_fidelity=self.min_fidelity,
            prefer=self.prefer,
            allow_nearest=self.allow_nearest,
            enqueue=self.enqueue,
            owner=self.owner,
        )


class Answered(NamedTuple):
    """A status and a JSON text."""

    status: int
    text: str


Found = Answered | HttpError | UserError | None
"""A schedule; why none was found; or ``None``: nothing is stored, and the caller wants a job."""


class Looker:
    """Answers best-queries from ``store``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._reads = FirstRows(store)
        self._neighbours = Neighbours(store, self._reads)

    def look_up(self, questions: Sequence[Question]) -> list[Found]:
        """The answers to the first of ``questions``, at least to one: as many as fit into a
        piece of work. ``StoreError`` if the database cannot be read."""
        until = time.monotonic() + PIECE_S
        self._neighbours.refresh()
        found: list[Found] = []
        for question in questions:
            found.append(self._found(question))
            if time.monotonic() >= until:
                break
        return found

    def close(self) -> None:
        """Closes its connections."""
        self._reads.close()

    def _found(self, question: Question) -> Found:
        try:
            asked = question.asked()
            text = self._exact(asked)
            if text is not None:
                return Answered(200, text)
            near = self._neighbours.nearest(asked) if asked.allow_nearest else None
            if near is not None:
                return Answered(200, json.dumps(near, separators=(",", ":")))
            return None if asked.enqueue else self._miss(asked)
        except (HttpError, UserError) as error:
            return error

    def _exact(self, asked: Asked) -> str | None:
        if self._reads.in_process:
            first = self._reads.first_now(values_of(asked.lookup))
            if first is None:
                return None
            row = ServingRow._make(first)
            problem = asked.lookup.stored_under(row.contract)
            if not self._store.validator.fault(row, problem, kernel=asked.kernel):
                return exact_text(row, asked)
        best = self._store.best_row(asked.lookup, asked.kernel)
        return None if best is None else exact_text(best, asked)

    def _miss(self, asked: Asked) -> HttpError:
        workload = asked.problem.workload
        others = other_targets(
            asked.lookup, lambda one: self._store.best_row(one, asked.kernel) is not None
        )
        with self._store.reading() as session:
            aside = [
                {"id": name, "reason": reason}
                for name, reason in quarantined(session, asked.lookup)
            ]
        return not_found(
            f"no schedule is stored for {workload.label}, contract {asked.problem.contract} or one "
            f"it implies, {asked.problem.target.name}, caches {asked.lookup.cache}, "
            f"fidelity {asked.lookup.min_fidelity} or higher",
            accepted=f"targets with one: {', '.join(others)}"
            if others
            else "a workload that was tuned; `nearest` names some",
            next_step="POST /v1/jobs with the body in `submit`, or ask with on_miss=enqueue",
            nearest=self._neighbours.names(asked),
            quarantined=aside,
            submit=on_miss.body_for(asked).model_dump(mode="json", exclude_unset=True),
        )
