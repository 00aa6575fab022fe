"""The conformance suite of "which schedule is best": rows of what is stored, asked and answered.

A store's test class inherits :class:`BestConformance` and makes the store. An entrance (a command,
a route) overrides :meth:`BestConformance.answer` too, and so is held to the very same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import pytest

from tuner.conformance.records import NEWER_TOOLCHAIN, TOOLCHAIN, measurement
from tuner.identity import digest_of_bytes
from tuner.keeping.best import Lookup, lookup_of
from tuner.keeping.store import TrialStore
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, CacheState, Fidelity, Preference, Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import JobSpec, JobState, Schedule, Submission, Trial
from tuner.space import Config

KERNEL: Final = "gemm_u8"
WHOLE: Final = {"m": 64, "n": 128, "k": 128}
"""Its rows are whole vectors: callers of its static form keep every contract."""
RAGGED: Final = {"m": 64, "n": 100, "k": 128}
"""Its rows are not: callers of its static form keep ``none`` and ``host`` besides."""
OUTSIDE: Final = {"tile_m": 5}
"""A value that the knob does not have."""


@dataclass(frozen=True)
class Stored:
    """A job whose only trial is ok and becomes the best of its own problem."""

    cycles: int
    contract: str = "static"
    fidelity: Fidelity = "model"
    newer: bool = False
    """Whether the newer of two toolchains made it."""
    by: str = ""
    """The code generator of its toolchain, if not the usual one."""
    cache: CacheState = "warm"
    shape: Mapping[str, int] | None = None
    target: str = "hexagon-v66"
    left_space: bool = False
    """Whether its config is outside its space now."""
    quarantined: bool = False
    private_of: str = ""
    expected: int | None = None
    """Its expected cycles, where anything is assumed."""
    prefer: Preference = "robust"
    """By its job."""


@dataclass(frozen=True)
class Row:
    """A case: the stored jobs in their order, the query, and the cycles of the answer."""

    name: str
    stored: tuple[Stored, ...]
    best: int | None
    contract: str = "static"
    cache: CacheState = "warm"
    min_fidelity: Fidelity = "model"
    shape: Mapping[str, int] | None = None
    audience: str = ""
    toolchain: Mapping[str, str] | None = None
    prefer: Preference = "robust"

    @property
    def lookup(self) -> Lookup:
        """The question."""
        return lookup_of(
            problem_of(self.shape, self.contract),
            cache=self.cache,
            min_fidelity=self.min_fidelity,
            toolchain=self.toolchain,
            audience=self.audience,
            prefer=self.prefer,
        )


ROWS: Final = (
    Row("nothing stored", (), None),
    Row("a weaker contract answers", (Stored(900, "none"),), 900),
    Row(
        "a higher fidelity comes before fewer cycles, under whichever contract",
        (Stored(900, "none"), Stored(5000, "static", "hardware")),
        5000,
    ),
    Row(
        "the toolchain used last comes before fewer cycles, under whichever contract",
        (Stored(10), Stored(100, newer=True), Stored(50, "stride", newer=True)),
        50,
    ),
    Row(
        "a config that left its space is set aside for a weaker contract's",
        (Stored(100, left_space=True), Stored(500, "stride")),
        500,
    ),
    Row("a faster weaker contract wins", (Stored(800), Stored(700, "host")), 700),
    Row("a stronger contract is never served", (Stored(10),), None, contract="stride"),
    Row(
        "static shapes of whole rows keep the contracts of strides and extents",
        (Stored(60, "extent"), Stored(70, "host")),
        60,
    ),
    Row(
        "static shapes of ragged rows do not",
        (Stored(60, "stride", shape=RAGGED), Stored(70, "host", shape=RAGGED)),
        70,
        shape=RAGGED,
    ),
    Row(
        "fewer expected cycles come before fewer cycles",
        (Stored(120, expected=130), Stored(100, expected=150)),
        120,
    ),
    Row(
        "unless the fastest is asked for",
        (Stored(120, expected=130), Stored(100, expected=150, prefer="fastest")),
        100,
        prefer="fastest",
    ),
    Row(
        "each rule keeps its own best",
        (Stored(100, expected=150, prefer="fastest"), Stored(120, expected=130)),
        120,
    ),
    Row(
        "whichever rule found it, what is better by the rule asked for is the answer",
        (Stored(120, expected=130), Stored(110, expected=115, prefer="fastest")),
        110,
    ),
    Row(
        "where nothing is assumed the rules agree",
        (Stored(50, fidelity="hardware", prefer="fastest"), Stored(40, fidelity="hardware")),
        40,
    ),
    Row("another shape is another problem", (Stored(10, shape=RAGGED),), None),
    Row("cold caches do not answer for warm ones", (Stored(10, cache="cold"),), None),
    Row(
        "each cache state has its own best",
        (Stored(10), Stored(99, cache="cold")),
        99,
        cache="cold",
    ),
    Row("a fidelity below the least is refused", (Stored(10),), None, min_fidelity="hardware"),
    Row(
        "a fidelity above the least is taken",
        (Stored(10), Stored(90, fidelity="hardware"), Stored(40, fidelity="cycle_accurate")),
        90,
        min_fidelity="cycle_accurate",
    ),
    Row(
        "the highest fidelity answers though its toolchain is older",
        (Stored(90, fidelity="hardware"), Stored(10, newer=True)),
        90,
    ),
    Row("a toolchain in use again is the one used last", (Stored(50, newer=True), Stored(99)), 99),
    Row(
        "code generators are compared by cycles, whichever was used last",
        (Stored(50, by="portfolio"), Stored(99)),
        50,
    ),
    Row(
        "but not if they were used with different versions of what both need",
        (Stored(50, by="portfolio"), Stored(99, newer=True)),
        99,
    ),
    Row(
        "of each code generator the toolchain used last",
        (Stored(10), Stored(60, newer=True), Stored(70, newer=True, by="portfolio")),
        60,
    ),
    Row(
        "an older toolchain waits until the newer ones have nothing that is valid",
        (
            Stored(10),
            Stored(5, newer=True, left_space=True),
            Stored(70, newer=True, by="portfolio"),
        ),
        70,
    ),
    Row(
        "one toolchain can be asked for",
        (Stored(50), Stored(99, newer=True)),
        50,
        toolchain=TOOLCHAIN,
    ),
    Row(
        "the next best trial takes the place of one that left its space",
        (Stored(300), Stored(100, left_space=True)),
        300,
    ),
    Row("nothing valid is nothing", (Stored(10, left_space=True),), None),
    Row(
        "a faulty one of a higher fidelity does not hide a lower one",
        (Stored(90), Stored(10, fidelity="hardware", left_space=True)),
        90,
    ),
    Row("a quarantined one is not served", (Stored(10, quarantined=True),), None),
    Row(
        "the next best trial takes the place of a quarantined one",
        (Stored(300), Stored(100, quarantined=True), Stored(200, "none")),
        200,
    ),
    Row("a private one is not everybody's", (Stored(10, private_of="vision"), Stored(90)), 90),
    Row(
        "its owner gets it",
        (Stored(10, private_of="vision"), Stored(90)),
        10,
        audience="vision",
    ),
    Row(
        "an owner gets the shared one if that is faster",
        (Stored(90, private_of="vision"), Stored(10)),
        10,
        audience="vision",
    ),
)


def problem_of(
    shape: Mapping[str, int] | None, contract: str, target: str = "hexagon-v66"
) -> Problem:
    """The problem of ``shape`` (by default :data:`WHOLE`)."""
    kernel = find_kernel(KERNEL)
    return kernel.problem(shape or WHOLE, Contract(contract), find_target(target))


def put(store: TrialStore, stored: Stored, number: int) -> str:
    """Runs a job on paper; the id of its schedule. ``number`` tells schedules of a row apart."""
    of = problem_of(stored.shape, stored.contract, stored.target)
    space = find_kernel(KERNEL).space(of)
    config = space.sample(Random(number))
    if stored.left_space:
        config = Config({**config, **OUTSIDE})
    # One toolchain for each state of the caches, as measurers have it.
    named = {**(NEWER_TOOLCHAIN if stored.newer else TOOLCHAIN)}
    if stored.by:
        named["generator"] = stored.by
    if stored.cache != "warm":
        named["cache"] = stored.cache
    code = b"\x7fELF" + number.to_bytes(4, "big") * 100 + of.symbol.encode() + b"\0"
    files = {"object": code, "header": b"int f(void);\n", "schedule": b"//\n"}
    made = Artifact(digest_of_bytes(code), of.symbol, files)
    measured = replace(
        measurement(stored.cycles, stored.fidelity),
        cache=stored.cache,
        expected_cycles=stored.expected,
        lowest_cycles=stored.expected and min(stored.cycles, stored.expected),
        highest_cycles=stored.expected and max(stored.cycles, stored.expected),
    )
    tenant = stored.private_of
    submission = Submission(tenant, owner=tenant, private=True) if tenant else None
    job = store.create_job(
        JobSpec(problem=of, generator="halide", cache=stored.cache, prefer=stored.prefer),
        space,
        named,
        submission,
    )
    token = store.claim(job.id)
    trial = Trial(
        0, config, "tpe", Outcome.OK, measured, made.digest, started_at=1.0, finished_at=2.0
    )
    schedule = Schedule(
        problem=of,
        config=config,
        generator="halide",
        measurement=measured,
        artifact_digest=made.digest,
        symbol=made.symbol,
        provenance=job.provenance(0, 2.0),
    )
    store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=schedule)
    store.release(job.id, token, JobState.DONE)
    if stored.quarantined:
        assert store.quarantine(schedule.public_id, "a doubt")
    return schedule.public_id


class BestConformance:
    """Inherit it and override :meth:`store` with one that is new and empty."""

    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        raise NotImplementedError

    def answer(self, store: TrialStore, row: Row) -> int | None:
        """The cycles of the best for ``row``'s question; ``None`` for nothing stored. Entrances
        ask in their own way, and skip what they have no words for."""
        found = store.best(row.lookup)
        return None if found is None else found.measurement.cycles

    @pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
    def test_the_best(self, store: TrialStore, row: Row) -> None:
        for number, stored in enumerate(row.stored):
            put(store, stored, number)
        assert self.answer(store, row) == row.best
        assert self.answer(store, row) == row.best, "asked again"
