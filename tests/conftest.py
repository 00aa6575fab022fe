"""For all tests: Hypothesis fails none for being slow or unlucky, and none waits for the disk."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from db.place import URL_VARIABLE
from tests.databases import put_database
from tests.db.postgres_server import Databases, databases
from tuner.paths import STATE_DIR_VARIABLE

# Without deadlines, nor a check of how long examples take to draw: a loaded machine is not a
# failure, and tests never assert wall time. Only `make nightly` has other examples each time.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _PATIENT, max_examples=25, derandomize=True)
settings.register_profile("thorough", _PATIENT, max_examples=500)
settings.load_profile("quick")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing is flushed to the disk: no test cuts the power, and whatever else ends a process
    leaves what it has written in the system's memory. Only in this process; those that tests start
    write as users' do. Each commit would cost milliseconds otherwise, more beside other writers.
    """
    from db import engine

    with pytest.MonkeyPatch.context() as patches:
        set_up = engine._set_up_sqlite

        def quick(
            busy_timeout_s: float, connection: sqlite3.Connection, record: Any = None
        ) -> None:
            set_up(busy_timeout_s, connection, record)
            connection.execute("PRAGMA synchronous = OFF")

        quick.as_shipped = set_up  # type: ignore[attr-defined]
        patches.setattr(engine, "_set_up_sqlite", quick)
        patches.setattr(os, "fsync", lambda descriptor: None)
        yield


KIND_VARIABLE = "HVXTUNE_TEST_DATABASE"
"""``postgresql`` gives tests of stores, services and pages databases on a server started here."""

UseDatabase = Callable[[Path], None]


SAMPLED = {
    "test_from_generator.py::test_their_schedule_and_derived_ones_are_right": 2,
    "test_generator.py::test_planes_and_channels_may_be_made_each_in_another_way": 2,
    "test_generator.py::test_the_last_cells_may_lack_pixels": 3,
    "test_generators.py::test_several_threads_compile_at_once": 3,
    "test_generators.py::test_what_is_told_to_be_one_object_is_one": 2,
    "test_kinds.py::test_code_of_several_outputs_is_right": 2,
    "test_one_best.py::test_the_best": 3,
    "test_packages.py::test_a_package_is_right_and_as_fast_as_its_page_says": 3,
    "test_portfolio.py::test_the_portfolio_of_every_kernel_has_the_spaces_of_its_members": 3,
    "test_programs.py::test_kernels_are_right_for_odd_shapes": 3,
    "test_references.py::test_each_intrinsic_is_what_hexagon_code_makes_of_it": 3,
    "test_registered_kernels.py::test_default_and_textbook_code_is_right": 13,
    "test_registered_kernels.py::test_halide_accepts_the_directives_of_any_config": 3,
    "test_registered_kernels.py::test_most_samples_are_right": 37,
    "test_registered_kernels.py::test_no_choice_is_dead": 3,
    "test_registered_kernels.py::test_a_search_ends_with_a_verified_schedule": 7,
    "test_registered_kernels.py::test_the_pipeline_equals_the_reference_on_this_machine": 7,
    "test_shapes.py::test_short_rows_have_schedules_that_are_right": 3,
    "test_unseen_pipelines.py::test_sums_and_shifts_that_a_compiler_gets_wrong_are_right": 3,
    "test_unseen_pipelines.py::test_what_a_compiler_gets_wrong_is_no_schedule": 5,
}
"""Tests of which CI runs one case in so many, and ``make nightly`` the others: they are alike, and
all of them took CI a quarter of an hour. The numbers share no divisor with those of contracts,
shapes and troubles, so that the cases that are left go through these in turn."""


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C reaches tests, and what they start, as in a terminal: shells have what they run in the
    background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Schemathesis makes its requests when its tests are collected: for ten seconds, which a run
    without slow tests is spared."""
    unwanted = "not slow" in config.option.markexpr
    return True if unwanted and collection_path.name == "test_schemathesis.py" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the cases that CI leaves out, leaves out what PostgreSQL makes no other, and puts slow
    tests first: workers that run out of tests take others' last ones (``--dist worksteal``)."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    _leave_to_nightly(items)
    _leave_out_what_needs_no_server(config, items)


def _leave_to_nightly(items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        name = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        one_in = SAMPLED.get(name)
        if one_in is not None:
            if seen[name] % one_in:
                item.add_marker(pytest.mark.nightly)
            seen[name] += 1


def _leave_out_what_needs_no_server(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over PostgreSQL, tests that do not :func:`use_database` would only be what they are without:
    they are left out, and counted as deselected."""
    if os.environ.get(KIND_VARIABLE, "sqlite") == "sqlite":
        return
    uses = [item for item in items if "use_database" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(uses)])
    items[:] = uses


@pytest.fixture(scope="session")
def server() -> Iterator[Databases | None]:
    """The PostgreSQL server of this session, if its tests use one."""
    match os.environ.get(KIND_VARIABLE, "sqlite"):
        case "sqlite":
            yield None
        case "postgresql":
            with databases() as made:
                yield made
        case other:
            pytest.exit(f"{KIND_VARIABLE} is '{other}'; accepted: sqlite or postgresql", 2)


@pytest.fixture
def use_database(
    server: Databases | None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[UseDatabase]:
    """``use_database(state)`` makes ``state`` the state directory, with a new empty database: in
    it, or on the server of this session."""

    def use(state: Path) -> None:
        monkeypatch.setenv(STATE_DIR_VARIABLE, str(state))
        if server is None:
            monkeypatch.delenv(URL_VARIABLE, raising=False)
            put_database(state)
        else:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            monkeypatch.setenv(URL_VARIABLE, server())

    yield use
    if server is not None:
        server.take_back()


@pytest.fixture
def durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases are set up as they are for users."""
    from db import engine

    set_up = getattr(engine._set_up_sqlite, "as_shipped", engine._set_up_sqlite)
    monkeypatch.setattr(engine, "_set_up_sqlite", set_up)
