"""Files that messages name are found from wherever they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.shipped import with_places

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["docs/devices.md", "examples/gemm"])
def test_a_file_has_its_path_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_places(f"see {name}; or ({name})") == f"see {ROOT / name}; or ({ROOT / name})"
    monkeypatch.chdir(ROOT)
    assert with_places(f"see {name}.") == f"see {name}."


@pytest.mark.parametrize("text", ["docs/no-such.md", "my/docs/devices.md"])
def test_other_words_stay(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_places(text) == text
