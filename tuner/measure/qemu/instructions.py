"""Which instructions and archs a version of qemu-hexagon implements, from ``instructions.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TABLE = Path(__file__).with_suffix(".toml")
_PARSE_BITS = np.uint32(0xC000)
_CLASS_BITS = np.uint32(0xF0000000)

Release = tuple[int, int]
"""Major and minor version of QEMU."""

_ARCHS: tuple[tuple[Release, tuple[str, ...]], ...] = (
    ((6, 2), ("v65", "v66")),
    ((8, 1), ("v67", "v68", "v69", "v71", "v73")),
)
"""Archs whose integer code runs, by the first release of QEMU that runs it: 6.2 brought HVX up to
v66, 8.1 "Add support for v68/v69/v71/v73" (commits of 2021 and 2023 in target/hexagon)."""


def runnable_archs(release: Release) -> tuple[str, ...]:
    """The archs whose integer code QEMU of ``release`` executes, oldest first."""
    return tuple(arch for first, archs in _ARCHS if first <= release for arch in archs)


def first_release_running(arch: str) -> Release | None:
    """The first release of QEMU that runs integer code for ``arch``; ``None`` if none does."""
    return next((first for first, archs in _ARCHS if arch in archs), None)


def release_of(version: str) -> Release:
    """The release in the line QEMU prints about its version; ``(0, 0)`` if there is none."""
    found = re.search(r"version (\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@dataclass(frozen=True)
class Instruction:
    """An instruction some release lacks: words ``w`` with ``w & mask == match``.

    ``syntax`` is as assemblers write it, ``group`` the part of the instruction set.
    """

    mask: int
    match: int
    syntax: str
    group: str


@cache
def missing_instructions(release: Release) -> tuple[Instruction, ...]:
    """What QEMU of ``release`` does not implement, or takes for something else."""
    return tuple(
        Instruction(mask, match, syntax, group["name"])
        for group in tomllib.loads(_TABLE.read_text())["group"]
        if release < _first(group)
        for mask, match, syntax in group["instructions"]
    )


def _first(group: dict[str, Any]) -> tuple[float, ...]:
    since = group.get("since")
    return tuple(map(int, since.split("."))) if since else (float("inf"),)


def find_missing(words: NDArray[np.uint32], release: Release) -> Iterator[tuple[int, Instruction]]:
    """Position and instruction of each among ``words`` of code that ``release`` lacks.

    Constant extenders (class 0) and duplexes (parse bits 0), whose bits mean other things, are
    passed over; duplexes hold only instructions of the first archs.
    """
    parse, kind = words & _PARSE_BITS, words & _CLASS_BITS
    candidates = np.flatnonzero((parse != 0) & (kind != 0))
    chosen = words[candidates]
    for instruction in missing_instructions(release):
        hits = (chosen & np.uint32(instruction.mask)) == np.uint32(instruction.match)
        if hits.any():
            yield int(candidates[int(np.argmax(hits))]), instruction
