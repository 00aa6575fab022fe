"""Where schedules come from: a service, the database of this machine, or a file from a service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from service.client.answers import not_ours
from service.suggested_files import way_to
from tuner.errors import NotStoredError, UserError
from tuner.keeping.best import Lookup, lookup_of, other_targets
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem

if TYPE_CHECKING:
    from service.client import Best
    from service.client.blocking import BestOptions, BlockingClient
    from tuner.keeping.store import TrialStore
    from tuner.records.trial import Schedule

FileKind = Literal["object", "header", "schedule"]


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
    generator: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    workload: str = ""
    """As :meth:`Source.workload`, where that is known without asking."""


class NothingStoredError(NotStoredError):
    """A source has no schedule that fits."""


class Source(Protocol):
    """Offers schedules and hands out their files."""

    def best(self, lookup: Lookup) -> Offer:
        """The best schedule that fits; ``NothingStoredError``, or ``RefusedError`` with status 404,
        says how to get one if none is stored."""
        ...

    def file(self, schedule: str, object_digest: str, kind: FileKind) -> bytes:
        """A file of a schedule; the caller checks its digest."""
        ...

    def workload(self, offer: Offer) -> str:
        """SHA-256 of the workload that the schedule of ``offer`` is for, by which a kernel of
        another version is told apart."""
        ...


class ServerSource:
    """Schedules from a service."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def best(self, lookup: Lookup) -> Offer:
        return _offer_of(best_there(self._client, lookup))

    def file(self, schedule: str, object_digest: str, kind: FileKind) -> bytes:
        return self._client.file(schedule, kind, object_digest if kind == "object" else None)

    def workload(self, offer: Offer) -> str:
        about = self._client.file(offer.schedule, "provenance")
        try:
            return str(json.loads(about)["workload_digest"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise not_ours(self._client.server, "a provenance names no workload") from None


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
        generator=str(document.get("generator") or ""),
        config=document.get("config") or {},
        toolchain=document.get("toolchain") or {},
    )


class LocalSource:
    """Schedules from a store: the database of this machine, or a file that was opened as one."""

    def __init__(self, store: TrialStore) -> None:
        self._store = store

    def best(self, lookup: Lookup) -> Offer:
        return _stored(stored_best(self._store, lookup))

    def file(self, schedule: str, object_digest: str, kind: str) -> bytes:
        files = self._store.artifact(object_digest).files
        if kind not in files:
            raise UserError(
                f"the stored schedule {schedule} has no {kind}",
                accepted=", ".join(sorted(files)),
                next_step=way_to(kind),
            )
        return files[kind]

    def workload(self, offer: Offer) -> str:
        return offer.workload


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
        generator=schedule.generator,
        config=schedule.config.as_dict(),
        toolchain=dict(schedule.provenance["toolchain"]),
        workload=problem.workload.digest,
    )


def stored_best(store: TrialStore, lookup: Lookup) -> Schedule:
    """The best schedule in ``store``; ``NothingStoredError`` says how to get one without one."""
    found = store.best(lookup)
    if found is None:
        from service.labels import problem_label, problem_options

        problem, cache = lookup.problem, lookup.cache
        least = lookup.min_fidelity
        higher = "" if least == "model" else f", fidelity {least} or higher"
        others = other_targets(lookup, lambda other: store.best(other) is not None)
        raise NothingStoredError(
            f"no schedule is stored for {problem_label(problem)}, caches {cache}{higher}",
            accepted=f"targets with one: {', '.join(others)}" if others else "",
            next_step=f"run `hvxtune tune {problem_options(problem)} --cache {cache}`",
        )
    return found


def best_there(client: BlockingClient, lookup: Lookup) -> Best:
    """The best schedule that a service gives."""
    problem = lookup.problem
    options: BestOptions = {
        "target": problem.target.name,
        "contract": problem.contract.value,
        "cache": lookup.cache,
    }
    if lookup.min_fidelity != "model":
        options["min_fidelity"] = lookup.min_fidelity
    if lookup.prefer != "robust":
        options["prefer"] = lookup.prefer
    return client.best(problem.workload.kernel, problem.workload.params, **options)


def broken_promise(problem: Problem, needed: Contract) -> str | None:
    """Why a caller that keeps the problem's contract does not keep ``needed``; ``None`` if it does.

    Callers that promise exact shapes keep the weaker contracts where the shapes do.
    """
    if needed in lookup_of(problem).contracts:
        return None
    if not problem.contract.implies(needed):
        return f"the caller promises '{problem.contract}' only"
    return f"and the dense rows of {problem.workload.label} are not whole vectors"


def age_text(seconds: float) -> str:
    """``40 s``, ``12 min``, ``5 h``, ``3 days``."""
    for size, unit in ((172_800, "days"), (7_200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3_600, 'min': 60}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"
