"""The queue, and queries about jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from db.sql_store import SqlStore
from tests.db.job_queries_conformance import JobQueriesConformance
from tests.db.job_queue_conformance import JobQueueConformance

pytestmark = pytest.mark.usefixtures("database")


class TestJobQueries(JobQueriesConformance):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        store = open_store()
        yield store
        store.close()


class TestQueue(JobQueueConformance):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        store = open_store()
        yield store
        store.close()
