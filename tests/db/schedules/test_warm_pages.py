"""The pages that look-ups read are mapped before anybody asks."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from db.schedules import serving


def _resident_kib(file: Path) -> int:
    """How much of ``file`` this process has mapped in, by the kernel's own account."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if "-" in first and not first.endswith(":"):
            inside = line.endswith(str(file))
        elif inside and first == "Rss:":
            total += int(line.split()[1])
    return total


def test_a_mapped_file_is_mapped_in_whole(tmp_path: Path) -> None:
    file = tmp_path / "database"
    file.write_bytes(b"x" * (8 << 20))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as held:
        thread = serving.warm_pages(file)
        assert thread is not None
        thread.join()
        if _kernel() >= (5, 14):
            assert _resident_kib(file) == len(held) // 1024


def _kernel() -> tuple[int, ...]:
    import os

    return tuple(int(part) for part in os.uname().release.split(".")[:2])


def test_what_memory_cannot_hold_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "database"
    file.write_bytes(b"x")
    monkeypatch.setattr(serving, "_MOST_OF_FREE_MEMORY", 0.0)
    assert serving.warm_pages(file) is None
    assert serving.warm_pages(tmp_path / "missing") is None
