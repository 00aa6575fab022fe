"""A state directory of its own for each test, and the small kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from db import open_store
from db.place import URL_VARIABLE
from db.sql_store import SqlStore
from tests.rig.scale_u8 import KERNELS
from tuner.kernels import EXTRA_KERNELS_VARIABLE


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A new database, which processes started by the test find too."""
    monkeypatch.setenv(URL_VARIABLE, f"sqlite:///{tmp_path}/hvxtune.sqlite")
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    store = open_store()
    yield store
    store.close()
