"""The roster over a database: the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from db.devices.roster import SqlRoster
from tests.tuner.measure.farm.roster_conformance import Clock, RosterConformance

pytestmark = pytest.mark.usefixtures("database")


class TestSqlRoster(RosterConformance):
    @pytest.fixture
    def roster(self, clock: Clock) -> Iterator[SqlRoster]:
        with open_store() as store:
            yield SqlRoster(store, clock)
