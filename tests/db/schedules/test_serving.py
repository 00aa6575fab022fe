"""Look-ups of schedules, on SQLite also by a connection of their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text

from db import open_store
from db.schedules import quarantine
from db.schedules.serving import _RANKED, _THE_ROW, FirstRows, values_of
from db.sql_store import SqlStore
from tests.db.serving_conformance import SHAPE, ServingConformance, lookup
from tests.service.stored import problem, store_schedule

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def store() -> Iterator[SqlStore]:
    opened = open_store()
    yield opened
    opened.close()


class TestServing(ServingConformance):
    pass


@pytest.mark.sqlite
def test_the_first_row_is_the_first_of_all(store: SqlStore) -> None:
    of = problem(**SHAPE)
    reads = FirstRows(store)
    assert reads.first_now(values_of(lookup(of))) is None
    for cycles, contract in ((100, "static"), (100, "none"), (90, "stride"), (80, "host")):
        store_schedule(store, problem(contract=contract, **SHAPE), cycles)
        assert reads.first_now(values_of(lookup(of))) == store.fitting(lookup(of))[0]
    reads.close()


@pytest.mark.sqlite
def test_the_version_changes_with_every_commit_elsewhere_and_with_nothing_else(
    store: SqlStore,
) -> None:
    reads = FirstRows(store)
    before = reads.version()
    assert reads.version() == before
    reads.first_now(values_of(lookup(problem(**SHAPE))))
    assert reads.version() == before
    store_schedule(store, problem(**SHAPE), 100)
    assert reads.version() != before
    reads.close()


@pytest.mark.sqlite
@pytest.mark.parametrize("statement", [_RANKED, _THE_ROW])
def test_a_look_up_sorts_nothing_and_scans_nothing(store: SqlStore, statement: str) -> None:
    path = store.place.path
    assert path is not None
    with closing(sqlite3.connect(path)) as connection:
        places = [1] * statement.count("?")
        steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}", places).fetchall()
    plan = [step[-1] for step in steps]
    assert all(step.startswith("SEARCH") for step in plan), plan
    if statement == _RANKED:
        found = [step for step in plan if step.startswith("SEARCH s")]
        assert "COVERING INDEX ix_schedules_standings" in found[0], "no row of a schedule is read"


@pytest.mark.sqlite
@pytest.mark.parametrize("change", ["quarantined", "faster", "deleted", "the id given away"])
def test_a_row_that_changes_between_the_two_looks_is_not_taken_for_what_it_was(
    store: SqlStore, change: str
) -> None:
    of, other = problem(**SHAPE), problem(m=65, n=128, k=128)
    name = store_schedule(store, of, 100)
    reads = FirstRows(store)
    reads.first_now(values_of(lookup(of)))

    def change_it() -> None:
        if change == "quarantined":
            quarantine.quarantine(store, name, "a doubt")
        elif change == "faster":
            store_schedule(store, of, 90)
        else:
            with store.writing() as session:
                session.execute(text("DELETE FROM schedules"))
        if change == "the id given away":
            store_schedule(store, other, 100)

    class Between:
        """The cursor, and somebody who writes after its first statement."""

        def execute(self, statement: str, values: tuple[object, ...]) -> sqlite3.Cursor:
            if statement == _THE_ROW:
                change_it()
            return cursor.execute(statement, values)

    cursor = reads._own()
    reads._cursor = Between()  # type: ignore[assignment]
    assert reads.first_now(values_of(lookup(of))) is None
    reads._cursor = cursor
    assert reads.first_now(values_of(lookup(of))) == next(iter(store.fitting(lookup(of))), None)
    reads.close()


@pytest.mark.sqlite
def test_looking_up_holds_no_transaction_open(store: SqlStore) -> None:
    of = problem(**SHAPE)
    store_schedule(store, of, 100)
    reads = FirstRows(store)
    assert reads.first_now(values_of(lookup(of))) is not None
    assert store.place.path is not None
    with closing(sqlite3.connect(store.place.path, timeout=1)) as connection:
        # Waits for readers of the log: it could not begin anew while one is left.
        [(busy, *_)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert busy == 0
    reads.close()
