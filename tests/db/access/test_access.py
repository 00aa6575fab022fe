"""Tokens and the audit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from db.sql_store import SqlStore
from tests.db.access_conformance import AccessConformance

pytestmark = pytest.mark.usefixtures("database")


class TestAccess(AccessConformance):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        with open_store() as opened:
            yield opened
