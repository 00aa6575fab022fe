"""The store over SQLite: the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from tuner.conformance.best import BestConformance
from tuner.conformance.stores import StoreConformance
from tuner.store import TrialStore

pytestmark = pytest.mark.usefixtures("database")


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        store = open_store()
        yield store
        store.close()


class TestBestInSqlite(BestConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        with open_store() as store:
            yield store
