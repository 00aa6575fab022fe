"""What the form can offer beside the simulator: the devices of the farm, by their tags."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import UserError
from tuner.measure.farm.farm_file import read_farm
from tuner.records.candidate import FIDELITIES


@dataclass(frozen=True)
class OfferedDevices:
    """Tags of all devices, and of those to which what was searched in the model can be promoted.
    None where there is no farm, or its file is wrong: ``hvxtune farm check`` says how."""

    tags: tuple[str, ...] = ()
    higher: tuple[str, ...] = ()


def offered_devices() -> OfferedDevices:
    """Those of this machine's farm file."""
    try:
        members = read_farm().members
    except UserError:
        return OfferedDevices()
    model = {tag for m in members if m.kind.fidelity == FIDELITIES[0] for tag in m.tags}
    every = {tag for m in members for tag in m.tags}
    return OfferedDevices(tuple(sorted(every)), tuple(sorted(every - model)))
