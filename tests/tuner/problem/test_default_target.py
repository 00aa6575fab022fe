"""The target of commands that name none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import StoreError
from tuner.machine.chosen_target import choose_default_target
from tuner.paths import CACHE_DIR_VARIABLE
from tuner.problem.default_target import TARGET_VARIABLE, default_target
from tuner.problem.target import BASELINE_TARGET, find_target


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache without a choice."""
    monkeypatch.delenv(TARGET_VARIABLE)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_environment_comes_before_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    choose_default_target(find_target("hexagon-v73"))
    monkeypatch.setenv(TARGET_VARIABLE, "hexagon-v68")
    assert default_target() == "hexagon-v68"
    monkeypatch.setenv(TARGET_VARIABLE, "")
    assert default_target() == "hexagon-v73"


@pytest.mark.parametrize("content", [b"hexagon-v99\n", b"\xff\xfe"])
def test_what_cannot_be_read_counts_as_no_choice(cache: Path, content: bytes) -> None:
    choose_default_target(find_target("hexagon-v73"))
    (place,) = cache.iterdir()
    place.write_bytes(content)
    assert default_target() == BASELINE_TARGET


def test_a_cache_that_takes_nothing_is_told(cache: Path) -> None:
    cache.write_text("in the way")
    with pytest.raises(StoreError, match="cannot create"):
        choose_default_target(find_target("hexagon-v73"))
    assert default_target() == BASELINE_TARGET
