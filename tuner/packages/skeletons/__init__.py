"""Packages to begin with: each folder here is one that works as it is."""

from __future__ import annotations

import re
from pathlib import Path

from tuner.errors import UserError

_HERE = Path(__file__).parent


def skeleton_names() -> list[str]:
    """The names that :func:`write_skeleton` takes."""
    return sorted(path.parent.name for path in _HERE.glob("*/kernel.toml"))


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Writes the skeleton called ``name`` to ``folder``, a new or empty one, after which the kernel
    is named. Returns the files. ``UserError`` if there is no such skeleton, or the folder has
    files."""
    if name not in skeleton_names():
        raise UserError(f"--from '{name[:40]}'", accepted=", ".join(skeleton_names()))
    new_folder(folder)
    written = []
    for source in sorted((_HERE / name).rglob("*")):
        if not source.is_file() or source.suffix == ".pyc":
            continue
        text = source.read_text()
        if source.name == "kernel.toml":
            text = re.sub(
                r'^name = ".*"$', f'name = "{package_name(folder)}"', text, count=1, flags=re.M
            )
        place = folder / source.relative_to(_HERE / name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        written.append(place)
    return written


def new_folder(folder: Path) -> None:
    """Makes ``folder``, unless it is there and empty; ``UserError`` if it has files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty", accepted="a new folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)


def package_name(folder: Path) -> str:
    """The name of a package in ``folder``."""
    plain = re.sub(r"[^a-z0-9_]", "_", folder.resolve().name.lower())[:60]
    return plain if re.match("[a-z]", plain) else f"k_{plain}"
