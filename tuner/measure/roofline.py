"""How near a measurement is to the least cycles its work needs.

The roofline model (Williams, Waterman, Patterson, CACM 52(4), 2009) with one roof for each
resource of a packet: the work of one call over what the resource does in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuner.kernels import find_kernel
from tuner.records.candidate import Problem


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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bound:
        """From the JSON form of :meth:`Roofline.as_dict`."""
        return cls(data["resource"], data["unit"], data["work"], data["per_cycle"])


@dataclass(frozen=True)
class Roofline:
    """A measurement of ``cycles`` under its bounds.

    ``bounds`` are those of the kernel's work on the HVX contexts it may use, whatever the code;
    ``memory`` is that of the bytes that this run moved from and to DDR, if it did.
    """

    cycles: int
    bounds: tuple[Bound, ...]
    memory: Bound | None = None

    @property
    def peak_cycles(self) -> float:
        """The least cycles of the kernel's work: the HVX peak."""
        return max(bound.cycles for bound in self.bounds)

    @property
    def share_of_peak(self) -> float:
        """Least cycles over measured ones."""
        return self.peak_cycles / self.cycles

    @property
    def all_bounds(self) -> tuple[Bound, ...]:
        """Those of the kernel, then that of DDR."""
        return self.bounds if self.memory is None else (*self.bounds, self.memory)

    @property
    def binding(self) -> Bound:
        """The resource that needs most cycles."""
        return max(self.all_bounds, key=lambda bound: bound.cycles)

    def as_dict(self) -> dict[str, Any]:
        """JSON form: each bound with what was reached of it."""
        return {
            "binds": self.binding.resource,
            "peak_cycles": self.peak_cycles,
            "share_of_peak": round(self.share_of_peak, 4),
            "bounds": [self._as_dict(bound) for bound in self.bounds],
            "memory": None if self.memory is None else self._as_dict(self.memory),
        }

    def _as_dict(self, bound: Bound) -> dict[str, Any]:
        return {
            **asdict(bound),
            "cycles": bound.cycles,
            "reached_per_cycle": round(bound.work / self.cycles, 3),
            "share": round(bound.cycles / self.cycles, 4),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], cycles: int) -> Roofline:
        """The inverse of :meth:`as_dict`."""
        memory = data["memory"]
        return cls(
            cycles=cycles,
            bounds=tuple(Bound.from_dict(bound) for bound in data["bounds"]),
            memory=None if memory is None else Bound.from_dict(memory),
        )


def roofline_of(
    problem: Problem, cycles: int, moved_bytes: int, ddr_bytes_per_cycle: float
) -> Roofline:
    """The bounds of a problem's work on its target; see ``WorkCounts.bound_cycles``.

    ``moved_bytes`` went from and to DDR, which moves at most ``ddr_bytes_per_cycle``.
    """
    workload = problem.workload
    work = find_kernel(workload.kernel).work(workload.params)
    amounts = {
        "multiply": (work.macs, "u8 MAC"),
        "alu": (work.lane_ops, "byte ops"),
        "load": (work.read_bytes, "bytes"),
        "store": (work.written_bytes, "bytes"),
    }
    bounds = tuple(
        Bound(resource, unit, amount, round(amount / least, 6))
        for resource, least in work.bound_cycles(problem.target).items()
        for amount, unit in [amounts[resource]]
        if amount
    )
    memory = Bound("ddr", "bytes", moved_bytes, ddr_bytes_per_cycle) if moved_bytes else None
    return Roofline(cycles, bounds, memory)
