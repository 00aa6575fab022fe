"""Artifact -> verified measurement: measurers, devices, and the cases they verify against.

One line in ``_REGISTRY`` makes a new measurer known, or in a package an entry point of the group
``hvxtune.measurers``; :mod:`tuner.conformance.measurers` is the suite that each must pass. A new
kind of device is a line of :mod:`tuner.measure.device`.
"""

from __future__ import annotations

from collections.abc import Callable

from tuner.errors import HvxtuneError, UserError
from tuner.measure.measurer import ALL_DEVICES, DeviceAccess, Measurer, Timed
from tuner.problem.target import Target
from tuner.records.candidate import CacheState
from tuner.registry import Registry

QEMU = "qemu"
"""The measurer that every installation has."""
FARM = "farm"
"""The measurer that shares candidates out to the devices of a farm."""
_REGISTRY: Registry[Measurer] = Registry(
    "measurer",
    "hvxtune.measurers",
    {
        QEMU: "tuner.measure.qemu.measurer:QemuMeasurer",
        "hexagon-sim": "tuner.measure.hexagon_sim.device:HexagonSimMeasurer",
        FARM: "tuner.measure.farm.measurer:FarmMeasurer",
    },
    Measurer,
    choose_with="choose one of these, or leave the measurer out",
)


def measurer_names() -> list[str]:
    """The names of all measurers."""
    return _REGISTRY.names()


def find_measurer(name: str) -> type[Measurer]:
    """The class of the measurer called ``name``; it can be made without arguments."""
    return _REGISTRY.find(name)


def open_measurer(
    name: str, cache: CacheState = "warm", access: DeviceAccess = ALL_DEVICES
) -> Measurer:
    """The measurer called ``name``, for the caller to close. ``UserError`` if ``access`` chooses
    devices and the measurer has none."""
    found: Callable[..., Measurer] = find_measurer(name)
    if getattr(found, "uses_devices", False):
        return found(cache=cache, access=access)
    if access.on:
        raise UserError(
            f"on '{access.on}' with the measurer '{name}', which has no devices to choose from",
            accepted=f"the measurer '{FARM}'",
            next_step=f"choose the measurer {FARM}, or leave `on` out",
        )
    return found(cache=cache)


def refusals(target: Target) -> dict[str, HvxtuneError | None]:
    """For every measurer why it cannot run code for ``target`` here, ``None`` if it can.

    The farm is left out on a machine without one.
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
    "DeviceAccess",
    "Measurer",
    "Timed",
    "find_measurer",
    "measurer_names",
    "open_measurer",
    "refusals",
]
