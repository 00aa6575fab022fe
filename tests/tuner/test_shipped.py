"""Files that messages name are found from wherever they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.shipped import FOLDERS, shipped, with_places

ROOT = Path(__file__).parents[2]


def test_a_checkout_has_them_where_they_are_written() -> None:
    assert [shipped(name) for name in FOLDERS] == [ROOT / name for name in FOLDERS]


@pytest.mark.parametrize("name", ["docs/devices.md", "examples/gemm", "cmake/HvxTune.cmake"])
def test_a_file_has_its_path_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_places(f"see {name}; or ({name})") == f"see {ROOT / name}; or ({ROOT / name})"
    monkeypatch.chdir(ROOT)
    assert with_places(f"see {name}.") == f"see {name}."


@pytest.mark.parametrize(
    "text", ["docs/no-such.md", "my/docs/devices.md", "/docs/devices.md", "docs", ""]
)
def test_other_words_stay(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_places(text) == text


def test_a_file_of_ones_own_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/devices.md").touch()
    monkeypatch.chdir(tmp_path)
    assert with_places("docs/devices.md") == "docs/devices.md"
