"""State and cache are apart: the cache is the machine's, whatever the state directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.paths import (
    CACHE_DIR_VARIABLE,
    STATE_DIR_VARIABLE,
    cache_dir,
    cached,
    state_dir,
    writable,
)


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg-cache"))


def test_by_default_they_are_in_the_xdg_homes(tmp_path: Path) -> None:
    assert state_dir() == tmp_path / "xdg-state/hvxtune"
    assert cache_dir() == tmp_path / "xdg-cache/hvxtune"
    assert cached("native") == tmp_path / "xdg-cache/hvxtune/native"
    assert cached("native").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "xdg-state").exists()


def test_another_state_directory_has_the_same_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cached("native")
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "other"))
    assert writable("timing") == tmp_path / "other/timing"
    assert cached("native") == before
    assert os.listdir(tmp_path / "other") == ["timing"]
