"""The store over a database: the contract, wherever its artifacts lie."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from tuner.conformance.best import BestConformance
from tuner.conformance.stores import StoreConformance
from tuner.keeping.store import TrialStore

pytestmark = pytest.mark.usefixtures("database")


class TestSqlStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        store = open_store()
        yield store
        store.close()


class TestBestInSqlStore(BestConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        with open_store() as store:
            yield store
