"""The jobs that a process can run on this machine, and what it lacks for others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import HvxtuneError
from tuner.machine.doctor import compilers
from tuner.measure import FARM, QEMU, measurer_names, refusals
from tuner.measure.farm.farm_file import read_farm
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target


@dataclass(frozen=True)
class Lack:
    """A part that cannot be reached, and why, in one line."""

    part: str
    reason: str

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.part}: {self.reason}"


@dataclass(frozen=True)
class Abilities:
    """The measurers that work here, and the tags of each device of the farm that is driven from
    here."""

    measurers: tuple[str, ...] = ()
    devices: tuple[tuple[str, ...], ...] = ()

    def lacking(self, measurer: str, on: str = "", promote_to: str = "") -> str:
        """The need of a job with these options that is not met: a measurer, or ``a device with the
        tags ...``; empty if nothing."""
        wanted = [(measurer, on)]
        if promote_to:
            known = promote_to in measurer_names()
            wanted.append((promote_to, "") if known else (FARM, promote_to))
        for name, tags in wanted:
            if name not in self.measurers:
                return f"a device with the tags {tags}" if name == FARM and tags else name
            if name == FARM and not self._has_device(tags):
                return f"a device with the tags {tags}"
        return ""

    def _has_device(self, tags: str) -> bool:
        wanted = split_tags(tags)
        return any(wanted <= set(device) for device in self.devices)


@dataclass(frozen=True)
class Capacity:
    """The processes of an executor that compile and measure, and the candidates they take at
    once."""

    workers: int = 0
    slots: int = 0


@dataclass(frozen=True)
class Worker:
    """A process elsewhere that compiles and measures. It is given nothing if it ``lacks``
    something."""

    name: str
    slots: int
    measurers: tuple[str, ...]
    lacks: tuple[Lack, ...] = ()


@dataclass(frozen=True)
class Examined:
    """The abilities of this machine. ``lacks`` keep it from every job; ``without`` are measurers
    that do not work here. ``workers`` are those of a cluster, the unfit first, and of a large one
    some."""

    abilities: Abilities
    lacks: tuple[Lack, ...] = ()
    without: tuple[Lack, ...] = ()
    capacity: Capacity = Capacity()
    workers: tuple[Worker, ...] = ()


def examine_tools() -> Examined:
    """Looks for compilers, measurers and devices of the farm. Needs no network."""
    lacks = [
        Lack("compilers", f"{one.name} {one.found}; {one.remedy}")
        for one in compilers()
        if not one.present
    ]
    refused = refusals(find_target(DEFAULT_TARGET))
    able = [name for name, error in refused.items() if error is None]
    without = [Lack(name, str(error)) for name, error in refused.items() if error is not None]
    devices: Sequence[tuple[str, ...]] = ()
    try:
        devices = [tuple(sorted(member.tags)) for member in read_farm().members]
    except HvxtuneError:  # no farm file, or one that cannot be read: `refusals` tells
        devices = ()
    if devices and FARM not in able:
        able.append(FARM)  # of devices for other targets
    if not able:
        lacks.append(next((one for one in without if one.part == QEMU), Lack(QEMU, "is missing")))
    return Examined(
        Abilities(tuple(able), tuple(devices)),
        tuple(lacks),
        tuple(without),
        Capacity(1, len(os.sched_getaffinity(0))),
    )


def split_tags(text: str) -> set[str]:
    """The tags in ``pixel, v66``."""
    return {tag.strip() for tag in text.split(",")} - {""}
