"""Answers from another shape: only for clients that ask for them, and said to be such."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from db.nearest import NearestWorkloads, Neighbour
from db.serving import ServingRow
from db.sql_store import SqlStore
from service.schedules.answers import Answers, stored_under
from service.schedules.asked import Asked
from service.schedules.forms import asked_json, links, schedule_json
from service.schedules.validation import outside_space
from tuner.candidate import Problem
from tuner.contract import Contract
from tuner.errors import UserError
from tuner.kernels import find_kernel

MOST_LOOKED_AT = 1024
"""Neighbours whose schedules are read, at some 0.3 ms each."""
MOST_TRIED = 256
"""Neighbours whose configs are tried on the asked shape, nearest first."""
NAMED = 5
"""Nearest workloads that a miss names."""

_CONFIDENCE = ((0.5, "high"), (1.5, "medium"))


def confidence(distance: float) -> str:
    """How well the config of a shape so far away usually does: a rule of thumb, no measurement.

    ``high`` up to 0.5 (one extent by 41 %), ``medium`` up to 1.5, else ``low``.
    """
    return next((word for limit, word in _CONFIDENCE if distance <= limit), "low")


@dataclass(frozen=True)
class Near:
    """The best schedule of a neighbouring workload, of those that the caller may use."""

    neighbour: Neighbour
    row: ServingRow


class Neighbours:
    """Finds schedules of near shapes. Blocks."""

    def __init__(self, store: SqlStore, answers: Answers) -> None:
        self._answers = answers
        self._workloads = NearestWorkloads(store)

    def nearest(self, asked: Asked) -> dict[str, Any] | None:
        """The answer from the nearest shape whose config is valid for the asked problem."""
        for near in islice(self._near(asked), MOST_TRIED):
            theirs = replace(asked, problem=self._problem_of(near.neighbour, asked))
            values = self._answers.config_of(near.row)
            if outside_space(asked.problem, values, near.row.generator):
                continue
            fault = self._answers.validator.fault(near.row, stored_under(near.row, theirs))
            if fault:
                self._answers.set_aside(near.row, fault)
                continue
            return _nearest_json(near, theirs, asked, covered=_covers(near, asked, values))
        return None

    def names(self, asked: Asked) -> list[dict[str, Any]]:
        """The nearest workloads with a schedule for such a caller, for a miss to name."""
        return [
            {
                "kernel": near.neighbour.workload.kernel,
                "params": dict(near.neighbour.workload.params),
                "contract": near.row.contract,
                "target": asked.problem.target.name,
                "distance": near.neighbour.distance,
                "id": near.row.public_id,
            }
            for near in islice(self._near(asked), NAMED)
        ]

    def _near(self, asked: Asked) -> Iterator[Near]:
        kernel = find_kernel(asked.problem.workload.kernel)
        extents = [param.name for param in kernel.params if param.is_extent]
        near = self._workloads.near(asked.problem.workload, extents)
        for neighbour in islice(chain.from_iterable(near), MOST_LOOKED_AT):
            # Under the contracts that the asked shape keeps: a config made under another could
            # demand what the caller does not promise.
            lookup = replace(asked.lookup, workload=neighbour.workload.digest)
            for row in self._answers.reads.rows(lookup)[:1]:
                yield Near(neighbour, row)

    @staticmethod
    def _problem_of(neighbour: Neighbour, asked: Asked) -> Problem:
        return replace(asked.problem, workload=neighbour.workload)


def _covers(near: Near, asked: Asked, values: Any) -> bool:
    """Whether the neighbour's object may be called with the asked shape: made for any shape its
    contract allows, with the same settings (which are compiled in), and valid there too."""
    contract = Contract(near.row.contract)
    if contract is Contract.STATIC:
        return False
    kernel = find_kernel(asked.problem.workload.kernel)
    own, theirs = asked.problem.workload.params, near.neighbour.workload.params
    if any(own.get(p.name) != theirs.get(p.name) for p in kernel.params if not p.is_extent):
        return False
    try:
        problem = kernel.problem(own, contract, asked.problem.target)
    except UserError:
        return False
    return not outside_space(problem, values, near.row.generator)


def _nearest_json(near: Near, theirs: Asked, asked: Asked, *, covered: bool) -> dict[str, Any]:
    form = schedule_json(near.row, stored_under(near.row, theirs), asked.cache)
    distance = near.neighbour.distance
    word = confidence(distance)
    return {
        **form,
        "match": "nearest",
        "distance": distance,
        "confidence": word,
        "asked": asked_json(asked),
        "links": links(near.row.public_id, linkable=covered),
        "note": _note(near, covered=covered),
    }


def _note(near: Near, *, covered: bool) -> str:
    if covered:
        return "the object serves the asked shape too; its cycles were measured for `params`"
    return (
        "use the config only: the object is for the shape in `params`, under contract "
        f"'{near.row.contract}', and must not be linked for the asked one"
    )
