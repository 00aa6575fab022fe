"""Owners."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from db.sql_store import SqlStore
from tests.db.tenants_conformance import TenantsConformance

pytestmark = pytest.mark.usefixtures("database")


class TestTenants(TenantsConformance):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        with open_store() as opened:
            yield opened
