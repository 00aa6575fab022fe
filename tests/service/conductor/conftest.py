"""A state directory of its own for each test, and the small kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from db import open_store
from db.sql_store import SqlStore
from tests.conftest import UseDatabase
from tests.rig.scale_u8 import KERNELS
from tuner.kernels import EXTRA_KERNELS_VARIABLE


@pytest.fixture
def store(
    tmp_path: Path, use_database: UseDatabase, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqlStore]:
    """A new database, which processes started by the test find too."""
    use_database(tmp_path)
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    store = open_store()
    yield store
    store.close()
