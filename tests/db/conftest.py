"""Each test has a state directory of its own, and no database but the one in it, or the one that
:func:`tests.conftest.use_database` gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.place import URL_VARIABLE
from tests.conftest import UseDatabase
from tuner.paths import STATE_DIR_VARIABLE


@pytest.fixture
def database(state: Path, use_database: UseDatabase) -> None:
    """The test finds an empty database; without this it makes its own."""
    use_database(state)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(folder))
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    return folder
