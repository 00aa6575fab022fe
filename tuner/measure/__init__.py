"""Artifact -> verified measurement: measurers and the cases they verify against.

One line in ``_REGISTRY`` makes a new measurer known, and in a package an entry point of the group
``hvxtune.measurers``; ``tests/tuner/measure`` holds the conformance suite that each inherits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.errors import HvxtuneError, UserError
from tuner.measure.measurer import Measurer, Timed
from tuner.problem.target import Target
from tuner.records.candidate import CacheState
from tuner.registry import Registry

if TYPE_CHECKING:
    from tuner.measure.farm.roster import Roster

QEMU = "qemu"
"""The measurer that every installation has."""
FARM = "farm"
"""The measurer that shares candidates out to the devices of a farm."""
_REGISTRY: Registry[Measurer] = Registry(
    "measurer",
    "hvxtune.measurers",
    {
        QEMU: "tuner.measure.qemu.measurer:QemuMeasurer",
        "hexagon-sim": "tuner.measure.hexagon_sim.measurer:HexagonSimMeasurer",
        FARM: "tuner.measure.farm.measurer:FarmMeasurer",
    },
    Measurer,
    option="--measurer",
)


def measurer_names() -> list[str]:
    """The names of all measurers."""
    return _REGISTRY.names()


def find_measurer(name: str) -> type[Measurer]:
    """The class of the measurer called ``name``; it can be made without arguments."""
    return _REGISTRY.find(name)


def open_measurer(
    name: str,
    *,
    cache: CacheState = "warm",
    on: str = "",
    roster: Roster | None = None,
    holder: str = "",
) -> Measurer:
    """The measurer called ``name``, for the caller to close.

    ``on``, ``roster`` and ``holder`` are for a farm: which devices, who else uses them, and what
    others read of who does.
    """
    if name == FARM:
        from tuner.measure.farm.measurer import FarmMeasurer

        return FarmMeasurer(cache=cache, on=on, roster=roster, holder=holder)
    if on:
        raise UserError(
            f"on '{on}' with the measurer '{name}', which has no devices to choose from",
            accepted=f"the measurer '{FARM}'",
            next_step=f"add --measurer {FARM}, or leave --on out",
        )
    return find_measurer(name)(cache=cache)


def refusals(target: Target) -> dict[str, HvxtuneError | None]:
    """For every measurer why it cannot run code for ``target`` here, ``None`` if it can.

    A farm is left out where there is none.
    """
    from tuner.measure.farm.farm_file import NoFarmError

    found: dict[str, HvxtuneError | None] = {}
    for name in measurer_names():
        try:
            with find_measurer(name)() as measurer:
                measurer.require(target)
            found[name] = None
        except NoFarmError:
            continue
        except HvxtuneError as error:
            found[name] = error
    return found


__all__ = [
    "FARM",
    "QEMU",
    "Measurer",
    "Timed",
    "find_measurer",
    "measurer_names",
    "open_measurer",
    "refusals",
]
