"""A good package in a folder, to be broken in one place."""

from __future__ import annotations

from pathlib import Path

from tuner.packages.files import read_folder
from tuner.packages.kernel import PackageKernel
from tuner.packages.skeletons import write_skeleton


def good_package(folder: Path, kind: str = "c") -> Path:
    """The skeleton of ``kind`` in ``folder``."""
    write_skeleton(kind, folder)
    return folder


def edit(folder: Path, old: str, new: str, name: str = "kernel.toml") -> None:
    """Replaces ``old``, which is there, in a file of the package."""
    path = folder / name
    text = path.read_text()
    assert old in text, f"{old!r} is not in {name}"
    path.write_text(text.replace(old, new, 1))


def line_of(folder: Path, part: str, name: str = "kernel.toml") -> int:
    """The number of the first line of a file that holds ``part``."""
    lines = (folder / name).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if part in line)


def opened(folder: Path) -> PackageKernel:
    """The kernel, checked as far as it is without a build."""
    return PackageKernel(read_folder(folder))
