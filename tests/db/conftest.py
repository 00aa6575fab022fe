"""Each test has a state directory of its own, and no database but the one in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.place import URL_VARIABLE
from tests.databases import put_database
from tuner.paths import STATE_DIR_VARIABLE


@pytest.fixture
def database(tmp_path: Path) -> None:
    """The test finds an empty database; without this it makes its own."""
    put_database(tmp_path / "state")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(folder))
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    return folder
