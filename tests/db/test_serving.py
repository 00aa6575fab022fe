"""Look-ups of schedules on SQLite, also by the connection of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from db.serving import ScheduleReads
from db.sql_store import SqlStore
from tests.db.serving_conformance import SHAPE, ServingConformance, lookup
from tests.service.stored import problem, store_schedule

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def store() -> Iterator[SqlStore]:
    opened = open_store()
    yield opened
    opened.close()


class TestSqliteServing(ServingConformance):
    pass


def test_the_first_row_is_the_first_of_all(store: SqlStore) -> None:
    of = problem(**SHAPE)
    reads = ScheduleReads(store)
    assert reads.first_now(lookup(of).values) is None
    for cycles, contract in ((100, "static"), (100, "none"), (90, "stride"), (80, "host")):
        store_schedule(store, problem(contract=contract, **SHAPE), cycles)
        assert reads.first_now(lookup(of).values) == reads.rows(lookup(of))[0]
    reads.close()


def test_the_version_changes_with_every_commit_elsewhere_and_with_nothing_else(
    store: SqlStore,
) -> None:
    reads = ScheduleReads(store)
    before = reads.version()
    assert reads.version() == before
    reads.first_now(lookup(problem(**SHAPE)).values)
    assert reads.version() == before
    store_schedule(store, problem(**SHAPE), 100)
    assert reads.version() != before
    reads.close()
