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
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=project, check=True, capture_output=True, text=True).stdout
    source = folder / "source" / project.name
    for name in filter(None, names.split("\0")):
        if (project / name).exists():  # a link to a folder, too
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, source / name, follow_symlinks=False)
    out = folder / "wheels" / project.name
    pip("wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", out, source)
    (wheel,) = out.glob("*.whl")
    return wheel
