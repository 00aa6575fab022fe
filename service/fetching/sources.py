"""Where schedules come from: a service, or the database of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from tuner.errors import UserError
from tuner.problem.contract import Contract
from tuner.records.candidate import CacheState, Problem

if TYPE_CHECKING:
    from db import SqlStore
    from service.client import Best, Client
    from tuner.records.trial import Schedule

FileKind = Literal["object", "header"]


@dataclass(frozen=True)
class Offer:
    """A schedule that a source offers; ``stale`` says why and how old it is if it is not what
    the source says now."""

    kernel: str
    params: Mapping[str, int]
    target: str
    contract: str
    schedule: str
    symbol: str
    object_digest: str
    cycles: int
    fidelity: str
    stale: str = ""


class Source(Protocol):
    """Offers schedules and hands out their files."""

    def best(self, problem: Problem, cache: CacheState) -> Offer:
        """The best schedule for a caller that keeps the problem's contract; ``UserError`` says
        how to get one if there is none."""
        ...

    def file(self, schedule: str, object_digest: str, kind: FileKind) -> bytes:
        """A file of a schedule; the caller checks its digest."""
        ...


class ServerSource:
    """Schedules from a service."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def best(self, problem: Problem, cache: CacheState) -> Offer:
        best = self._client.best(
            problem.workload.kernel,
            problem.workload.params,
            target=problem.target.name,
            contract=problem.contract.value,
            cache=cache,
        )
        return _offer_of(best)

    def file(self, schedule: str, object_digest: str, kind: FileKind) -> bytes:
        return self._client.file(schedule, kind, object_digest if kind == "object" else None)


def _offer_of(best: Best) -> Offer:
    document = best.document
    stale = f"{best.reason}; this is its answer of {age_text(best.age_s)} ago"
    return Offer(
        kernel=str(document["kernel"]),
        params=dict(document["params"]),
        target=str(document["target"]),
        contract=str(document["contract"]),
        schedule=best.id,
        symbol=best.symbol,
        object_digest=best.object_digest,
        cycles=int(document.get("cycles") or 0),
        fidelity=str(document.get("fidelity") or "model"),
        stale=stale if best.from_cache else "",
    )


class LocalSource:
    """Schedules from the database of this machine."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def best(self, problem: Problem, cache: CacheState) -> Offer:
        found = [
            schedule
            for weaker in weaker_problems(problem)
            if (schedule := self._store.best(weaker, cache=cache)) is not None
        ]
        if not found:
            from service.cli.summary import problem_label, problem_options

            raise UserError(
                f"no schedule is stored for {problem_label(problem)}, caches {cache}",
                next_step=f"run `hvxtune tune {problem_options(problem)} --cache {cache}`",
            )
        return _stored(min(found, key=lambda one: one.measurement.cycles))

    def file(self, schedule: str, object_digest: str, kind: FileKind) -> bytes:
        files = self._store.artifact(object_digest).files
        if kind not in files:
            raise UserError(f"the stored schedule {schedule} has no {kind}")
        return files[kind]


def _stored(schedule: Schedule) -> Offer:
    problem = schedule.problem
    return Offer(
        kernel=problem.workload.kernel,
        params=dict(problem.workload.params),
        target=problem.target.name,
        contract=problem.contract.value,
        schedule=schedule.public_id,
        symbol=schedule.symbol,
        object_digest=schedule.artifact_digest,
        cycles=schedule.measurement.cycles,
        fidelity=schedule.measurement.fidelity,
    )


def weaker_problems(problem: Problem) -> list[Problem]:
    """The problem and those under weaker contracts, as far as a caller that keeps its contract
    keeps theirs."""
    from tuner.kernels import find_kernel

    kept = find_kernel(problem.workload.kernel).kept_contracts(problem)
    return [Problem(problem.workload, contract, problem.target) for contract in kept]


def broken_promise(problem: Problem, needed: Contract) -> str | None:
    """Why a caller that keeps the problem's contract does not keep ``needed``; ``None`` if it does.

    Whoever promises exact shapes keeps the weaker contracts where the shapes do.
    """
    if needed in {one.contract for one in weaker_problems(problem)}:
        return None
    if not problem.contract.implies(needed):
        return f"the caller promises '{problem.contract}' only"
    return f"and the dense rows of {problem.workload.label} are no whole vectors"


def age_text(seconds: float) -> str:
    """``40 s``, ``12 min``, ``5 h``, ``3 days``."""
    for size, unit in ((172_800, "days"), (7_200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3_600, 'min': 60}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"
