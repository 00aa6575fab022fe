"""Answers to many best-queries at once, as long as a piece of work may take.

One thread of one process works with a :class:`Looker`: what it keeps needs no locks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from db.schedules.serving import ServingRow
from db.sql_store import SqlStore
from service.problem_details import HttpError, not_found
from service.schedules import on_miss
from service.schedules.answers import Answers, stored_under
from service.schedules.asked import Asked, ask
from service.schedules.forms import exact_text
from service.schedules.neighbours import Neighbours
from tuner.errors import UserError
from tuner.records.candidate import CacheState, Fidelity

PIECE_S = 0.05
"""No further look-up of a piece begins after this: others wait, or the client has gone."""


@dataclass(frozen=True)
class Question:
    """One best-query, as plain values that can go to another process. ``kernel`` names an upload
    by its digest only."""

    kernel: str
    params: Mapping[str, int]
    target: str
    contract: str
    cache: CacheState
    min_fidelity: Fidelity
    allow_nearest: bool
    enqueue: bool
    owner: str = ""
    """Whose private schedules may answer beside the shared ones."""

    def asked(self) -> Asked:
        """The query, read and checked; ``UserError`` says what is wrong with it."""
        asked = ask(
            self.kernel,
            self.params,
            target=self.target,
            contract=self.contract,
            cache=self.cache,
            min_fidelity=self.min_fidelity,
            allow_nearest=self.allow_nearest,
            enqueue=self.enqueue,
        )
        return replace(asked, owner=self.owner)


class Answered(NamedTuple):
    """A status and a JSON text."""

    status: int
    text: str


Found = Answered | HttpError | UserError | None
"""A schedule; why none was found; or ``None``: nothing is stored, and the caller wants a job."""


class Looker:
    """Answers best-queries from ``store``."""

    def __init__(self, store: SqlStore) -> None:
        self._answers = Answers(store)
        self._neighbours = Neighbours(store, self._answers)

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
        self._answers.reads.close()

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
        reads = self._answers.reads
        if reads.in_process:
            first = reads.first_now(asked.lookup.values)
            if first is None:
                return None
            row = ServingRow._make(first)
            problem = stored_under(row, asked)
            if not self._answers.validator.fault(row, problem, kernel=asked.kernel):
                return exact_text(row, problem, asked)
        return self._answers.exact(asked)  # which also sets faulty ones aside

    def _miss(self, asked: Asked) -> HttpError:
        workload = asked.problem.workload
        aside: list[dict[str, Any]] = [
            {"id": name, "reason": reason}
            for name, reason in self._answers.reads.set_aside(asked.lookup)
        ]
        return not_found(
            f"no schedule is stored for {workload.label}, contract {asked.problem.contract} or one "
            f"it implies, {asked.problem.target.name}, caches {asked.cache}, "
            f"fidelity {asked.min_fidelity} or higher",
            accepted="a workload that was tuned; `nearest` names some",
            next_step="POST /v1/jobs with the body in `submit`, or ask with on_miss=enqueue",
            nearest=self._neighbours.names(asked),
            quarantined=aside,
            submit=on_miss.body_for(asked).model_dump(mode="json", exclude_unset=True),
        )
