"""Kinds of devices: one line makes a new one known. Imported when the first is opened."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tuner.measure.farm.device import Device
from tuner.measure.farm.settings import DeviceSettings, Limits
from tuner.records.candidate import Fidelity


@dataclass(frozen=True)
class Kind:
    """``opener`` is ``module:function``; it takes settings, the device's name and limits and
    gives a :class:`Device` without talking to it. The fingerprint of a ``local`` kind can be had
    without the device."""

    fidelity: Fidelity
    opener: str
    local: bool


KINDS: dict[str, Kind] = {
    "simulator": Kind("model", "tuner.measure.farm.simulator:open_simulator", True),
    "hexagon-sim": Kind(
        "cycle_accurate", "tuner.measure.hexagon_sim.device:open_hexagon_sim", True
    ),
    "phone": Kind("hardware", "tuner.measure.android.phone:open_phone", False),
}


@dataclass(frozen=True)
class Member:
    """One device of a farm as its file describes it: a phone, or one slot of a simulator."""

    name: str
    settings: DeviceSettings
    tags: tuple[str, ...]
    """Its own tags, and its kind, arch, SoC and name: what ``--on`` may name."""

    @property
    def kind(self) -> Kind:
        """What it is."""
        return KINDS[self.settings.kind]

    def open(self, limits: Limits) -> Device:
        """The device, for one driver. Nothing is connected yet."""
        module, _, name = self.kind.opener.partition(":")
        opener: Any = getattr(import_module(module), name)
        device: Device = opener(self.settings, self.name, limits)
        return device
