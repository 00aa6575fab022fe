"""Wheels of this repository, as outsiders install them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def pip(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def wheel_of(project: Path, folder: Path) -> Path:
    """The wheel of a project, built from a copy of its tracked files, with what is installed."""
    source = tracked_copy(project, folder / "source" / project.name)
    return built_wheel(source, folder / "wheels" / project.name)


def tracked_copy(project: Path, place: Path) -> Path:
    """A copy of the files of ``project`` that git knows, or would."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=project, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (project / name).exists():  # a link to a folder, too
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, place / name, follow_symlinks=False)
    return place


def built_wheel(source: Path, out: Path) -> Path:
    """The wheel of the project in ``source``, built into ``out`` with what is installed."""
    pip("wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", out, source)
    (wheel,) = out.glob("*.whl")
    return wheel
