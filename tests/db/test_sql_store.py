"""The store over a database: the contract, wherever its artifacts lie."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from tests.db.files.stand_in_bucket import NewBucket, bucket_server
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


class TestSqlStoreWithArtifactsInside(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        with open_store(artifacts="database:") as store:
            yield store


@pytest.fixture(scope="module")
def new_bucket() -> Iterator[NewBucket]:
    with bucket_server() as make:
        yield make


class TestSqlStoreWithArtifactsInABucket(StoreConformance):
    """Of a stand-in for S3 (:mod:`tests.db.files.stand_in_bucket`)."""

    @pytest.fixture
    def store(self, new_bucket: NewBucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrialStore]:
        for variable, value in new_bucket.environment.items():
            monkeypatch.setenv(variable, value)
        with open_store(artifacts=f"s3://{new_bucket()}/here") as store:
            yield store


class TestBestInSqlStore(BestConformance):
    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        with open_store() as store:
            yield store
