"""Answers from another shape: only for clients that ask for them, and said to be such."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from db.schedules.nearest import NearestWorkloads, Neighbour
from db.schedules.serving import FirstRows, ServingRow, Values, values_of
from db.schedules.validation import read_config
from db.sql_store import SqlStore
from service.schedules.asked import Asked
from service.schedules.forms import asked_json, links, schedule_json
from tuner.codegen import space_of
from tuner.codegen.judged import outside_space
from tuner.errors import UserError
from tuner.keeping.best import Lookup
from tuner.kernels import Kernel, find_kernel
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem
from tuner.space import Space

MOST_LOOKED_AT = 1024
"""Neighbours whose schedules are read, at about 0.1 ms each the first time."""
MOST_TRIED = 256
"""Neighbours whose configs are tried on the asked shape, nearest first."""
_KEPT_ROWS = 8192
"""At about 3 kB each: 25 MB."""
NAMED = 5
"""Nearest workloads that a miss names."""

_CONFIDENCE = ((0.5, "high"), (1.5, "medium"))


def confidence(distance: float) -> str:
    """How well the config of a shape so far away usually does: a rule of thumb, not a measurement.

    ``high`` up to 0.5 (one extent by 41 %), ``medium`` up to 1.5, else ``low``.
    """
    return next((word for limit, word in _CONFIDENCE if distance <= limit), "low")


@dataclass(frozen=True)
class Near:
    """The best schedule of a neighbouring workload, of those that the caller may use."""

    neighbour: Neighbour
    row: ServingRow


class Neighbours:
    """Finds schedules of near shapes. Blocks; not for several threads at once.

    The misses of one build ask for the same neighbours again and again: the best row of each is
    kept while nothing is committed to the database, or else until :meth:`refresh`.
    """

    def __init__(self, store: SqlStore, reads: FirstRows) -> None:
        self._store = store
        self._reads = reads
        self._workloads = NearestWorkloads(store)
        self._version: int | None = None
        self._looked: set[str] = set()
        self._rows: OrderedDict[Values, ServingRow | None] = OrderedDict()
        self._last: tuple[Asked, list[Near], Iterator[Near]] | None = None

    def refresh(self) -> None:
        """Sees all commits until now. Later ones may go unseen until the next call."""
        version = self._reads.version() if self._reads.in_process else None
        if version is None or version != self._version:
            self._version = version
            self._looked.clear()
            self._rows.clear()
            self._last = None

    def nearest(self, asked: Asked) -> dict[str, Any] | None:
        """The answer from the nearest shape whose config is valid for the asked problem."""
        space = _SpaceOf(asked.problem, asked.kernel)
        for near in islice(self._near(asked), MOST_TRIED):
            if not space.admits(near.row):
                continue
            theirs = _lookup_of(near.neighbour, asked).stored_under(near.row.contract)
            fault = self._store.validator.fault(near.row, theirs)
            if fault:
                self._store.set_aside(near.row, fault)
                continue
            values = json.loads(near.row.config)
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
        """Those with a schedule, nearest first. A miss asks twice in a row: the first
        result is not searched for again."""
        if self._last is None or self._last[0] != asked:
            self._last = asked, [], self._searched(asked)
        _, found, more = self._last
        yield from found
        for near in more:
            found.append(near)
            yield near

    def _searched(self, asked: Asked) -> Iterator[Near]:
        name = asked.problem.workload.kernel
        extents = [param.name for param in asked.kernel.params if param.is_extent]
        near = self._workloads.near(
            asked.problem.workload, extents, MOST_LOOKED_AT, looked=name in self._looked
        )
        # Under the contracts that the asked shape keeps: a config made under another could
        # demand what the caller does not promise.
        values = values_of(asked.lookup)
        for neighbour in near:
            self._looked.add(name)
            row = self._best(asked, neighbour, (neighbour.digest, *values[1:]))
            if row is not None:
                yield Near(neighbour, row)

    def _best(self, asked: Asked, neighbour: Neighbour, values: Values) -> ServingRow | None:
        if values in self._rows:
            return self._rows[values]
        if self._reads.in_process:
            found = self._reads.first_now(values)
            row = None if found is None else ServingRow._make(found)
        else:
            row = next(iter(self._store.fitting(_lookup_of(neighbour, asked))), None)
        self._rows[values] = row
        if len(self._rows) > _KEPT_ROWS:
            self._rows.popitem(last=False)
        return row


def _lookup_of(neighbour: Neighbour, asked: Asked) -> Lookup:
    """The same caller's lookup for the neighbour."""
    problem = replace(asked.problem, workload=neighbour.workload)
    return asked.lookup._replace(problem=problem)


class _SpaceOf:
    """The spaces of one problem, each made once, and which configs were found to lie in them."""

    def __init__(self, problem: Problem, kernel: Kernel) -> None:
        self._problem = problem
        self._kernel = kernel
        self._spaces: dict[str, Space | None] = {}
        self._admitted: dict[tuple[str, str], bool] = {}

    def admits(self, row: ServingRow) -> bool:
        """Whether the config of ``row``, as its generator reads it, fits the problem too."""
        key = (row.generator, row.config_digest)
        known = self._admitted.get(key)
        if known is None:
            space = self._space(row.generator)
            values, _ = read_config(row.config)
            known = space is not None and space.surely_admits(values)
            self._admitted[key] = known
        return known

    def _space(self, generator: str) -> Space | None:
        if generator not in self._spaces:
            try:
                self._spaces[generator] = space_of(generator, self._kernel, self._problem)
            except UserError:  # it makes no code of this kernel
                self._spaces[generator] = None
        return self._spaces[generator]


def _covers(near: Near, asked: Asked, values: Any) -> bool:
    """Whether the neighbour's object may be called with the asked shape: its contract allows any
    shape, its settings (which are compiled in) are the same, and it is valid there too."""
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


def _nearest_json(near: Near, theirs: Problem, asked: Asked, *, covered: bool) -> dict[str, Any]:
    form = schedule_json(near.row, theirs, asked.lookup.cache)
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
