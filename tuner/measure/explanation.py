"""Where the cycles of a measured candidate go: plain records, the same for every measurer.

A measurer that can look inside a run gives an :class:`Explanation`
(:meth:`tuner.measure.measurer.Measurer.explain`). Its JSON form is described in
docs/simulator.md, "Explain"; names of fields there are stable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from tuner.measure.roofline import Roofline
from tuner.records.candidate import CacheState, Fidelity

Group = Literal["issue", "dependency", "cache", "ddr", "branch", "parallel", "other"]
"""``issue``: a packet a cycle. ``dependency``: waits for results of earlier packets. ``cache``:
L1, L2 and VTCM accesses. ``ddr``: memory behind them. ``branch``: jumps and hardware loops.
``parallel``: starting tasks, and waiting for HVX contexts. ``other``: whatever else a measurer
tells apart."""

GROUPS: tuple[Group, ...] = get_args(Group)
"""All groups, in the order they are shown."""


UNITS: Mapping[str, int] = {
    "vector load": 1,
    "vector store": 1,
    "vector permute": 1,
    "vector shift": 1,
    "vector multiply": 2,
}
"""How many instructions of a kind a packet holds at most: the units of HVX (V66 HVX PRM, "Resource
usage"; ``CVI_LD``, ``CVI_ST``, ``CVI_XLANE``, ``CVI_SHIFT``, ``CVI_MPY0`` and ``1`` of LLVM's
itineraries). Instructions on register pairs may take two units and count as one here. Vector
arithmetic runs on any of the last four."""


@dataclass(frozen=True)
class Part:
    """Cycles with one cause."""

    group: Group
    cause: str
    cycles: int


@dataclass(frozen=True)
class ExplainedPacket:
    """One packet over the whole timed call.

    ``count`` is how often it ran, ``issue`` the cycles that took (less than ``count`` where
    several threads run it at the same time), ``stalls`` its stall cycles by cause. ``events`` is
    what else was counted at it (cache misses, say). ``kinds`` counts its instructions by kind,
    ``slots`` is how many of the packet's four slots they use. ``unaligned`` are vector accesses
    without an aligned address, ``spills`` vector accesses to the stack frame; these four are for
    one execution.
    """

    address: int
    size_bytes: int
    count: int
    issue: int
    text: str
    stalls: Mapping[str, int] = field(hash=False)
    events: Mapping[str, int] = field(hash=False)
    kinds: Mapping[str, int] = field(hash=False)
    slots: int
    unaligned: int = 0
    spills: int = 0

    @property
    def cycles(self) -> int:
        """Issue and stalls."""
        return self.issue + sum(self.stalls.values())

    @property
    def vector_instructions(self) -> int:
        """HVX instructions, loads and stores included."""
        return sum(n for kind, n in self.kinds.items() if kind.startswith("vector "))

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "cycles": self.cycles}


@dataclass(frozen=True)
class Totals:
    """What some packets did together, each packet as often as it ran.

    ``kinds`` counts instructions by kind; ``stalls`` are stall cycles by cause.
    """

    packets: int
    vector_packets: int
    issue: int
    stalls: Mapping[str, int] = field(hash=False)
    events: Mapping[str, int] = field(hash=False)
    kinds: Mapping[str, int] = field(hash=False)
    slots: int
    unaligned: int
    spills: int

    @property
    def cycles(self) -> int:
        """Issue and stalls."""
        return self.issue + sum(self.stalls.values())

    @property
    def vector_instructions(self) -> int:
        """HVX instructions, loads and stores included."""
        return sum(n for kind, n in self.kinds.items() if kind.startswith("vector "))

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "cycles": self.cycles,
            **asdict(self),
            "vector_instructions": self.vector_instructions,
        }


def totals_of(packets: Iterable[ExplainedPacket]) -> Totals:
    """What ``packets`` did together."""
    stalls, events, kinds = Counter[str](), Counter[str](), Counter[str]()
    sums = Counter[str]()
    for packet in packets:
        n = packet.count
        stalls.update(packet.stalls)
        events.update(packet.events)
        kinds.update({kind: n * count for kind, count in packet.kinds.items()})
        sums["packets"] += n
        sums["vector_packets"] += n * bool(packet.vector_instructions)
        sums["issue"] += packet.issue
        sums["slots"] += n * packet.slots
        sums["unaligned"] += n * packet.unaligned
        sums["spills"] += n * packet.spills
    return Totals(
        packets=sums["packets"],
        vector_packets=sums["vector_packets"],
        issue=sums["issue"],
        stalls=dict(stalls.most_common()),
        events=dict(events.most_common()),
        kinds=dict(kinds.most_common()),
        slots=sums["slots"],
        unaligned=sums["unaligned"],
        spills=sums["spills"],
    )


@dataclass(frozen=True)
class Region:
    """A loop without the loops inside it, or what of a function lies in no loop.

    ``begin`` is the packet through which it is entered, ``end`` the first address behind all.
    ``times`` is how often ``begin`` ran, ``inside`` the ``begin`` of the loop around it.
    ``packets`` are in the order of addresses.
    """

    kind: Literal["loop", "straight"]
    function: str
    begin: int
    end: int
    times: int
    inside: int | None
    packets: tuple[ExplainedPacket, ...] = field(repr=False)

    @property
    def totals(self) -> Totals:
        """All packets together."""
        return totals_of(self.packets)

    @property
    def busiest_unit(self) -> tuple[str, float]:
        """The kind of instruction whose unit of HVX is busy most, and in what share of the packets.

        Near 1 no other order of the instructions takes fewer packets. ``("", 0)`` without any.
        """
        totals = self.totals
        used = {
            unit: totals.kinds.get(unit, 0) / (most * totals.packets)
            for unit, most in UNITS.items()
        }
        unit = max(used, key=lambda each: used[each])
        return (unit, used[unit]) if used[unit] else ("", 0.0)

    def as_dict(self, of_cycles: int) -> dict[str, Any]:
        """JSON form; ``of_cycles`` is what the share is of."""
        totals = self.totals
        unit, busy = self.busiest_unit
        return {
            "kind": self.kind,
            "function": self.function,
            "begin": self.begin,
            "end": self.end,
            "times": self.times,
            "inside": self.inside,
            "share": round(totals.cycles / of_cycles, 4),
            "busiest_unit": unit,
            "busy": round(busy, 4),
            **totals.as_dict(),
            "listing": [packet.as_dict() for packet in self.packets],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Region:
        """The inverse of :meth:`as_dict`."""
        names = ("kind", "function", "begin", "end", "times", "inside")
        packets = ({k: v for k, v in p.items() if k != "cycles"} for p in data["listing"])
        return cls(
            **{name: data[name] for name in names},
            packets=tuple(ExplainedPacket(**packet) for packet in packets),
        )


_PLAIN = ("cycles", "core_cycles", "fidelity", "device", "cache", "code_bytes", "output_vectors")
"""Fields of an explanation that its JSON form holds as they are."""


@dataclass(frozen=True)
class Explanation:
    """The cycles of one timed call and what they were spent on.

    ``parts`` add up to ``cycles``. ``regions`` hold every packet that ran exactly once, the most
    expensive region first; their cycles add up to ``cycles`` less what a measurer can only tell
    for the whole run (``unplaced``). ``core_cycles`` are the cycles without what DDR adds (0: not
    known), ``cache`` is the condition they were measured under. ``output_vectors`` is the size of
    all outputs in HVX vectors: what figures of two schedules are compared by.
    """

    cycles: int
    core_cycles: int
    fidelity: Fidelity
    device: str
    cache: CacheState
    code_bytes: int
    output_vectors: float
    parts: tuple[Part, ...]
    roofline: Roofline
    regions: tuple[Region, ...]

    @property
    def totals(self) -> Totals:
        """All packets together."""
        return totals_of(packet for region in self.regions for packet in region.packets)

    @property
    def unplaced(self) -> int:
        """Cycles that belong to no single packet."""
        return self.cycles - self.totals.cycles

    def group(self, group: Group) -> int:
        """Cycles of one group."""
        return sum(part.cycles for part in self.parts if part.group == group)

    def as_dict(self) -> dict[str, Any]:
        """JSON form, with sums and shares spelt out."""
        return {
            "cycles": self.cycles,
            "core_cycles": self.core_cycles,
            "fidelity": self.fidelity,
            "device": self.device,
            "cache": self.cache,
            "code_bytes": self.code_bytes,
            "output_vectors": self.output_vectors,
            "split": {group: self.group(group) for group in GROUPS},
            "parts": [asdict(part) for part in self.parts],
            "unplaced": self.unplaced,
            "roofline": self.roofline.as_dict(),
            "totals": self.totals.as_dict(),
            "regions": [region.as_dict(self.cycles) for region in self.regions],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """The inverse of :meth:`as_dict`."""
        return cls(
            **{name: data[name] for name in _PLAIN},
            parts=tuple(Part(**part) for part in data["parts"]),
            roofline=Roofline.from_dict(data["roofline"], data["cycles"]),
            regions=tuple(Region.from_dict(region) for region in data["regions"]),
        )
