"""The least cycles that an algorithm needs on a target: found by :mod:`tuner.measure.roofline`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuner.records.candidate import Fidelity

MEMORY = ("l2", "ddr")
TITLES: Mapping[str, str] = {
    "multiply": "multiplies",
    "slots": "issue slots",
    "permute": "permutes",
    "load": "loads",
    "store": "stores",
    "l2": "L2",
    "ddr": "DDR",
}
"""Resources, for people."""


@dataclass(frozen=True)
class Bound:
    """``work`` (in ``unit``) that a resource does at most ``per_cycle`` of in a cycle."""

    resource: str
    unit: str
    work: int
    per_cycle: float

    @property
    def cycles(self) -> float:
        """The least cycles the resource needs."""
        return self.work / self.per_cycle


@dataclass(frozen=True)
class Roofline:
    """The bounds of an algorithm on the HVX contexts it may use; ``bounds`` is not empty."""

    bounds: tuple[Bound, ...]

    @property
    def binding(self) -> Bound:
        """The resource that needs most cycles."""
        return max(self.bounds, key=lambda bound: bound.cycles)

    @property
    def cycles(self) -> float:
        """The least cycles of the algorithm."""
        return self.binding.cycles

    @property
    def compute_cycles(self) -> float:
        """The same if memory had no limits."""
        return max(
            (bound.cycles for bound in self.bounds if bound.resource not in MEMORY), default=0.0
        )

    @property
    def memory_binds(self) -> bool:
        """Whether L2 or DDR needs most cycles."""
        return self.binding.resource in MEMORY

    @property
    def without_memory(self) -> Roofline:
        """The bounds of HVX alone."""
        return Roofline(tuple(one for one in self.bounds if one.resource not in MEMORY))

    def cycles_at(self, fidelity: Fidelity) -> float:
        """The least cycles of that fidelity. What memory takes is known of the model's alone: HVX
        bounds all others."""
        return self.cycles if fidelity == "model" else self.compute_cycles

    def as_dict(self, cycles: int | None = None) -> dict[str, Any]:
        """JSON form, with what a run of so many ``cycles`` reached of each bound."""
        form = {
            "binds": self.binding.resource,
            "cycles": round(self.cycles, 3),
            "compute_cycles": round(self.compute_cycles, 3),
        }
        bounds = [{**asdict(bound), "cycles": round(bound.cycles, 3)} for bound in self.bounds]
        if cycles is None:
            return {**form, "bounds": bounds}
        for bound, told in zip(self.bounds, bounds, strict=True):
            told["reached_per_cycle"] = round(bound.work / cycles, 3)
            told["share"] = round(bound.cycles / cycles, 4)
        return {**form, "share": round(self.cycles / cycles, 4), "bounds": bounds}
