"""Whatever is written in whatever order, every entrance finds the best of what is handed out."""

from __future__ import annotations

from contextlib import closing
from itertools import count, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import select, update

from db import open_store
from db.catalogue import used_toolchain_id
from db.exchange import export_schedules, import_schedules
from db.models import MeasurementRow, ProblemRow, ScheduleRow, ToolchainRow
from db.schedules import quarantine
from db.schedules.serving import FirstRows, values_of
from db.sql_store import SqlStore
from tests.databases import put_database
from tests.db.serving_conformance import lookup
from tests.service.stored import a_config, problem, store_schedule
from tuner.conformance.records import NEWER_TOOLCHAIN, TOOLCHAIN
from tuner.paths import STATE_DIR_VARIABLE
from tuner.problem.contract import Contract
from tuner.records.candidate import CACHE_STATES, FIDELITIES, Problem

SHAPES = ({"m": 64, "n": 128, "k": 128}, {"m": 65, "n": 128, "k": 128})
TOOLCHAINS = (TOOLCHAIN, NEWER_TOOLCHAIN)
_numbers = count()

shapes = st.sampled_from(SHAPES)
contracts = st.sampled_from(("static", "stride", "none"))
tools = st.sampled_from(TOOLCHAINS)


class Writers(RuleBasedStateMachine):
    """Tunes, quarantines, releases, imports and uses toolchains; after each step, every look-up is
    compared with a search through all rows."""

    folder: Path
    patch: pytest.MonkeyPatch

    @initialize()
    def begin(self) -> None:
        state = self.folder / str(next(_numbers))
        put_database(state)
        self.patch.setenv(STATE_DIR_VARIABLE, str(state))
        self.store: SqlStore = open_store()
        self.reads = FirstRows(self.store)
        self.file = state / "exported.zip"

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.reads.close()
            self.store.close()

    @rule(
        shape=shapes,
        contract=contracts,
        tool=tools,
        cycles=st.integers(90, 110),
        fidelity=st.sampled_from(FIDELITIES),
        cache=st.sampled_from(CACHE_STATES),
        seed=st.integers(0, 3),
    )
    def tune(self, shape, contract, tool, cycles, fidelity, cache, seed) -> None:  # type: ignore[no-untyped-def]
        of = problem(contract=contract, **shape)
        # One toolchain for each state of the caches, as measurers have it.
        named = {**tool, "cache": cache}
        config = a_config(of, seed)
        store_schedule(
            self.store, of, cycles, fidelity=fidelity, cache=cache, toolchain=named, config=config
        )

    @rule(pick=st.integers(0, 100), out=st.booleans())
    def quarantine_or_release(self, pick: int, *, out: bool) -> None:
        with self.store.reading() as session:
            names = session.scalars(select(ScheduleRow.public_id).order_by(ScheduleRow.id)).all()
        if names:
            name = names[pick % len(names)]
            assert name is not None
            if out:
                quarantine.quarantine(self.store, name, "a doubt")
            else:
                quarantine.release(self.store, name)

    @rule(tool=tools, cache=st.sampled_from(CACHE_STATES))
    def use(self, tool: dict[str, str], cache: str) -> None:
        with self.store.writing() as session:
            used_toolchain_id(session, {**tool, "cache": cache})

    @rule()
    def use_all_at_the_same_moment(self) -> None:
        with self.store.writing() as session:
            session.execute(update(ToolchainRow).values(last_used_at=5.0))

    @rule()
    def import_what_was_exported(self) -> None:
        if not self.file.exists():
            export_schedules(self.store, self.file)
        import_schedules(self.store, self.file)

    @invariant()
    def all_entrances_find_the_best(self) -> None:
        if not hasattr(self, "store"):
            return
        everything = self.handed_out()
        for shape, contract, cache, least in product(
            SHAPES, ("static", "none"), CACHE_STATES, FIDELITIES[:2]
        ):
            of = problem(contract=contract, **shape)
            wanted = lookup(of, cache=cache, min_fidelity=least)
            fitting = [
                (row, kept)
                for row, kept, row_cache in everything
                if kept.workload == of.workload
                and kept.contract in wanted.contracts
                and row_cache == cache
                and FIDELITIES.index(row.fidelity) >= FIDELITIES.index(least)
            ]
            in_order = [row.public_id for row, _ in sorted(fitting, key=_by_the_book)]
            assert [row.public_id for row in self.store.fitting(wanted)] == in_order
            first = self.reads.first_now(values_of(wanted))
            assert first == next(iter(self.store.fitting(wanted)), None)
            best = self.store.best(wanted)
            assert (None if best is None else [best.public_id]) == (in_order[:1] or None)

    def handed_out(self) -> list[tuple[ScheduleRow, Problem, str]]:
        """All of them, by nothing but the rows that hold the facts."""
        wanted = (
            select(ScheduleRow, ProblemRow, MeasurementRow.cache)
            .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
            .join(MeasurementRow, ScheduleRow.measurement_id == MeasurementRow.id)
            .where(ScheduleRow.quarantined_at.is_(None))
        )
        with self.store.reading() as session:
            return [
                (row, problem(contract=of.contract, **of.workload.params), cache)
                for row, of, cache in session.execute(wanted)
            ]


def _by_the_book(one: tuple[ScheduleRow, Problem]) -> tuple[object, ...]:
    """The order as the documentation has it."""
    row, of = one
    height = ["hardware", "cycle_accurate", "model"].index(row.fidelity)
    used = row.toolchain
    strongest_first = list(reversed(Contract)).index(of.contract)
    return (height, -used.last_used_at, used.digest, row.cycles, strongest_first)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Writers]:
    return type("WritersHere", (Writers,), {"folder": tmp_path, "patch": monkeypatch})


def _run(machine: type[Writers], examples: int, steps: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    chosen = settings(
        max_examples=examples, stateful_step_count=steps,
        suppress_health_check=quiet, derandomize=True,
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=chosen)


def test_after_a_few_writes_every_entrance_finds_the_best(machine: type[Writers]) -> None:
    _run(machine, examples=3, steps=12)


@pytest.mark.nightly
def test_after_very_many_writes_every_entrance_finds_the_best(machine: type[Writers]) -> None:
    _run(machine, examples=150, steps=40)


def test_how_the_caches_were_is_that_of_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that says otherwise is not handed out as what it is not."""
    put_database(tmp_path / "state")
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    of = problem(**SHAPES[0])
    with closing(open_store()) as store:
        store_schedule(store, of, 100)
        with store.writing() as session:
            session.execute(update(ScheduleRow).values(cache="cold"))
        reads = FirstRows(store)
        assert store.fitting(lookup(of, cache="cold")) == []
        assert reads.first_now(values_of(lookup(of, cache="cold"))) is None
        reads.close()
