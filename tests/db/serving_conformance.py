"""What look-ups of schedules promise on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from db.exchange import Imported, export_schedules, import_schedules
from db.jobs.queries import open_job
from db.schedules import quarantine
from db.schedules import queries as schedule_queries
from db.schedules.nearest import NearestWorkloads
from db.sql_store import SqlStore
from tests.service.stored import a_config, problem, store_schedule
from tuner.conformance.records import NEWER_TOOLCHAIN, TOOLCHAIN
from tuner.keeping.best import Lookup, lookup_of
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem
from tuner.records.trial import JobSpec

SHAPE = {"m": 64, "n": 128, "k": 128}


def lookup(of: Problem, **changes: Any) -> Lookup:
    return lookup_of(of)._replace(**changes)


class ServingConformance:
    """Inherited with a fixture ``store`` of an empty database."""

    def test_fitting_schedules_come_best_first(self, store: SqlStore) -> None:
        of = problem(**SHAPE)
        older = store_schedule(store, of, 10)
        fast = store_schedule(store, of, 100, toolchain=NEWER_TOOLCHAIN)
        weak = store_schedule(
            store, problem(contract="none", **SHAPE), 90, toolchain=NEWER_TOOLCHAIN
        )
        phone = store_schedule(store, of, 5000, fidelity="hardware")
        store_schedule(store, of, 1, cache="cold", toolchain={**TOOLCHAIN, "cache": "cold"})
        store_schedule(store, problem(m=65, n=128, k=128), 1)
        # The last job of all made TOOLCHAIN the one used last.
        found = [row.public_id for row in store.fitting(lookup(of))]
        assert found == [phone, older, weak, fast]
        only = store.fitting(lookup(of, contracts=(Contract.NONE,)))
        assert [row.public_id for row in only] == [weak]
        assert [r.public_id for r in store.fitting(lookup(of, min_fidelity="hardware"))] == [phone]

    def test_a_quarantined_schedule_is_not_found_until_it_is_released(
        self, store: SqlStore
    ) -> None:
        of = problem(**SHAPE)
        name = store_schedule(store, of, 100)
        [row] = store.fitting(lookup(of))
        assert quarantine.quarantine_row(store, row, "odd\0 \ud800")
        assert not quarantine.quarantine_row(store, row, "again")
        assert store.fitting(lookup(of)) == []
        found = schedule_queries.find(store, name)
        assert found is not None
        assert found.quarantine_reason.startswith("odd")
        assert quarantine.release(store, name)
        assert store.fitting(lookup(of)) == [row]

    def test_what_is_quarantined_does_not_come_back(self, store: SqlStore) -> None:
        of = problem(**SHAPE)
        bad = a_config(of, 1)
        name = store_schedule(store, of, 100, config=bad)
        assert quarantine.quarantine(store, name, "wrong on a phone")
        other = store_schedule(store, of, 200)
        store_schedule(store, of, 90, config=bad)
        assert [row.public_id for row in store.fitting(lookup(of))] == [other]
        assert quarantine.release(store, name)
        assert [row.public_id for row in store.fitting(lookup(of))] == [name]

    def test_the_next_best_is_of_the_same_fidelity_toolchain_and_cache(
        self, store: SqlStore
    ) -> None:
        of = problem(**SHAPE)
        newer = {**NEWER_TOOLCHAIN}
        same = store_schedule(store, of, 300)
        store_schedule(store, of, 150, toolchain=newer)
        store_schedule(store, of, 140, cache="cold", toolchain={**TOOLCHAIN, "cache": "cold"})
        store_schedule(store, problem(m=65, n=128, k=128), 130)
        store_schedule(store, of, 5000, fidelity="hardware")
        first = store_schedule(store, of, 100)
        assert quarantine.quarantine(store, first, "a doubt")
        model = [r.public_id for r in store.fitting(lookup(of)) if r.cycles < 5000]
        assert first not in model
        assert same in model
        found = schedule_queries.find(store, first)
        assert found is not None
        assert found.quarantine_reason == "a doubt"

    def test_a_schedule_replaced_since_it_was_read_is_not_quarantined(
        self, store: SqlStore
    ) -> None:
        of = problem(**SHAPE)
        store_schedule(store, of, 100)
        [row] = store.fitting(lookup(of))
        store_schedule(store, of, 50)
        assert not quarantine.quarantine_row(store, row, "odd")
        assert len(store.fitting(lookup(of))) == 1

    def test_pages_and_ids(self, store: SqlStore) -> None:
        names = [store_schedule(store, problem(m=m, n=128, k=8), 100) for m in range(1, 6)]
        first = schedule_queries.page(store, limit=3, kernel="gemm_u8", contract=Contract.STATIC)
        rest = schedule_queries.page(store, limit=3, below=first[-1].row.id, quarantined=False)
        assert [one.row.public_id for one in first + rest] == names[::-1]
        one = schedule_queries.find(store, names[0])
        assert one is not None
        assert one.row == rest[-1].row
        assert one.space == find_kernel("gemm_u8").space(one.problem)
        assert schedule_queries.find(store, "no\ud800-1") is None

    def test_the_nearest_shape_comes_first_and_new_ones_are_seen(self, store: SqlStore) -> None:
        for m in (256, 128, 1024):
            store_schedule(store, problem(m=m, n=128, k=8), 100)
        nearest = NearestWorkloads(store)
        own = problem(m=100, n=128, k=8).workload

        def order() -> list[int]:
            near = nearest.near(own, ("m", "n", "k"), limit=4)
            return [n.workload.params["m"] for n in near]

        assert order() == [128, 256, 1024]
        store_schedule(store, problem(m=99, n=128, k=8), 100)
        assert order() == [99, 128, 256, 1024]

    def test_an_open_job_is_found_by_its_problem(self, store: SqlStore) -> None:
        of = problem(**SHAPE)
        store_schedule(store, of, 100)
        assert open_job(store, of, "warm") is None  # that job is done
        space = find_kernel("gemm_u8").space(of)
        job = store.create_job(JobSpec(problem=of), space, TOOLCHAIN)
        assert open_job(store, of, "warm") == job
        assert open_job(store, of, "cold") is None
        assert open_job(store, of, "warm", ["hexagon-sim", "phone"]) is None
        climbing = JobSpec(problem=of, generator="halide", promote_to="phone", promote=3)
        climb = store.create_job(climbing, space, TOOLCHAIN)
        assert open_job(store, of, "warm", ["hexagon-sim", "phone"]) == climb
        assert open_job(store, of, "warm", ["hexagon-sim"]) is None

    def test_an_exported_file_is_known_when_it_comes_back(
        self, store: SqlStore, tmp_path: Path
    ) -> None:
        store_schedule(store, problem(**SHAPE), 100)
        file = tmp_path / "schedules.zip"
        assert export_schedules(store, file) == 1
        assert import_schedules(store, file) == Imported(1, 0, 1)
        name = schedule_queries.page(store)[0].row.public_id
        quarantine.quarantine(store, name, "a doubt")
        assert import_schedules(store, file) == Imported(1, 0, 1)
