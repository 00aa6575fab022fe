"""The sources of QEMU that :mod:`tuner.machine.building` builds, from ``sources.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Source:
    """The upstream tarball of a Debian source package, and the archs its program runs."""

    version: str
    file: str
    sha256: str
    runs: tuple[str, ...]


@cache
def qemu_sources() -> tuple[Source, ...]:
    """The preferred one first."""
    return tuple(
        Source(one["version"], one["file"], one["sha256"], tuple(one["runs"]))
        for one in _table()["source"]
    )


def build_wheels() -> Mapping[str, str]:
    """The wheels that the build needs: requirements with their SHA-256."""
    return dict(_table()["wheels"])


def buildable_archs() -> tuple[str, ...]:
    """The archs that a QEMU built from these sources runs."""
    return qemu_sources()[0].runs


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("sources.toml").read_text())
