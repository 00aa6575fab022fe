"""Choices of the form beside the simulator: the devices of the farm, by their tags."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import UserError
from tuner.measure.farm.farm_file import read_farm
from tuner.records.candidate import FIDELITIES


@dataclass(frozen=True)
class OfferedDevices:
    """Tags of all devices, and of those that trials of a model search can be promoted to. Empty
    without a farm, or with a wrong file, which ``hvxtune farm check`` explains."""

    tags: tuple[str, ...] = ()
    higher: tuple[str, ...] = ()


def offered_devices() -> OfferedDevices:
    """The devices of this machine's farm file."""
    try:
        members = read_farm().members
    except UserError:
        return OfferedDevices()
    model = {tag for m in members if m.kind.fidelity == FIDELITIES[0] for tag in m.tags}
    every = {tag for m in members for tag in m.tags}
    return OfferedDevices(tuple(sorted(every)), tuple(sorted(every - model)))
