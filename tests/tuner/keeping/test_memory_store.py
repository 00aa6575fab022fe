"""The store that keeps everything in the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tuner.conformance.best import BestConformance
from tuner.conformance.stores import StoreConformance
from tuner.keeping.memory_store import MemoryStore
from tuner.keeping.store import TrialStore


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        store = MemoryStore()
        yield store
        store.close()


class TestBestInMemory(BestConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        with MemoryStore() as store:
            yield store
