"""Where the cycles of a measured candidate go: plain records, the same for every measurer.

A measurer that can look inside a run gives an :class:`Explanation`
(:meth:`tuner.measure.measurer.Measurer.explain`). Its JSON form is described in
docs/explanations.md; names of fields there are stable. Two explanations of a problem are
held side by side by :func:`compare`.

The roofline (:mod:`tuner.measure.roofline`) says how near it is to the least that the algorithm
needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from tuner.records.candidate import CacheState, Fidelity
from tuner.records.roofline import Roofline

Group = Literal["issue", "dependency", "cache", "ddr", "branch", "parallel", "other"]
"""``issue``: a packet a cycle. ``dependency``: waits for results of earlier packets. ``cache``:
L1, L2 and VTCM accesses. ``ddr``: memory behind them. ``branch``: jumps and hardware loops.
``parallel``: starting tasks, and waiting for HVX contexts. ``other``: whatever else a measurer
tells apart."""

GROUPS: tuple[Group, ...] = get_args(Group)
"""All groups, in the order they are shown."""
GROUP_TITLES: Mapping[str, str] = {
    "issue": "packets issued",
    "dependency": "waiting for operands",
    "cache": "caches and VTCM",
    "ddr": "DDR",
    "branch": "branches and loop ends",
    "parallel": "threads",
    "other": "other",
}
"""Groups, for people."""


UNITS: Mapping[str, int] = {
    "vector load": 1,
    "vector store": 1,
    "vector permute": 1,
    "vector shift": 1,
    "vector multiply": 2,
    "vector arithmetic": 4,
}
"""How many of each unit of HVX a packet has (V66 HVX PRM, "Resource usage"; ``CVI_LD``, ``CVI_ST``,
``CVI_XLANE``, ``CVI_SHIFT``, ``CVI_MPY0`` and ``1`` of LLVM's itineraries). Arithmetic runs on any
of the last four, so that its limit counts them all."""


@dataclass(frozen=True)
class Part:
    """Cycles with one cause."""

    group: Group
    cause: str
    cycles: int


@dataclass(frozen=True)
class LatencyClass:
    """A rule of the timing model for some instructions.

    ``stages`` are pipeline stages by title: ``result`` is when it is ready, all others are when
    that operand is needed. ``forms`` are what an instruction must do for the rule to hold, beside
    its mnemonic. ``source`` is where the stages are published.
    """

    name: str
    stages: Mapping[str, int] = field(hash=False)
    source: str
    forms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """An instruction of a packet, in its ``slot`` of 3 to 0.

    ``latency`` is the place of its rule in the explanation's ``latency_classes``, ``None`` for
    instructions without operands to wait for. A compare and its jump in one word share a slot.
    """

    text: str
    slot: int
    mnemonic: str
    latency: int | None


class _Counted:
    """The sums that a packet and several packets share."""

    issue: int
    stalls: Mapping[str, int]
    kinds: Mapping[str, int]

    @property
    def cycles(self) -> int:
        """Issue and stalls."""
        return self.issue + sum(self.stalls.values())

    @property
    def vector_instructions(self) -> int:
        """HVX instructions, loads and stores included."""
        return sum(n for kind, n in self.kinds.items() if kind.startswith("vector "))


@dataclass(frozen=True)
class ExplainedPacket(_Counted):
    """One packet over the whole timed call.

    ``count`` is how often it ran, ``issue`` the cycles that took (less than ``count`` where
    several threads run it at the same time), ``stalls`` its stall cycles by cause. ``events`` is
    what else was counted at it (cache misses, say). ``kinds`` counts its instructions by kind,
    ``units`` the :data:`UNITS` they take, ``slots`` how many of the packet's four slots they use.
    ``unaligned`` are vector accesses without an aligned address, ``spills`` vector accesses to the
    stack frame; these five are for one execution. ``instructions`` are in the order of the code;
    none if the measurer cannot tell.
    """

    address: int
    size_bytes: int
    count: int
    issue: int
    text: str
    stalls: Mapping[str, int] = field(hash=False)
    events: Mapping[str, int] = field(hash=False)
    kinds: Mapping[str, int] = field(hash=False)
    units: Mapping[str, int] = field(hash=False)
    slots: int
    unaligned: int = 0
    spills: int = 0
    instructions: tuple[Instruction, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "cycles": self.cycles}


@dataclass(frozen=True)
class Totals(_Counted):
    """Sums over some packets, each packet as often as it ran.

    ``kinds`` counts instructions by kind, ``units`` the :data:`UNITS` they take; ``stalls`` are
    stall cycles by cause.
    """

    packets: int
    vector_packets: int
    issue: int
    stalls: Mapping[str, int] = field(hash=False)
    events: Mapping[str, int] = field(hash=False)
    kinds: Mapping[str, int] = field(hash=False)
    units: Mapping[str, int] = field(hash=False)
    slots: int
    unaligned: int
    spills: int

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "cycles": self.cycles,
            **asdict(self),
            "vector_instructions": self.vector_instructions,
        }


def totals_of(packets: Iterable[ExplainedPacket]) -> Totals:
    """The sums over ``packets``."""
    stalls, events, kinds, units = (Counter[str]() for _ in range(4))
    sums = Counter[str]()
    for packet in packets:
        n = packet.count
        stalls.update(packet.stalls)
        events.update(packet.events)
        kinds.update({kind: n * count for kind, count in packet.kinds.items()})
        units.update({unit: n * taken for unit, taken in packet.units.items()})
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
        units=dict(units.most_common()),
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
        """The unit of HVX of which most is taken, and how much of it in the average packet.

        Near 1 no other order of the instructions takes fewer packets. ``("", 0)`` without any.
        """
        totals = self.totals
        used = {
            unit: totals.units.get(unit, 0) / (most * totals.packets)
            for unit, most in UNITS.items()
        }
        unit = max(used, key=lambda each: used[each])
        return (unit, used[unit]) if used[unit] else ("", 0.0)

    def as_dict(self, of_cycles: int) -> dict[str, Any]:
        """JSON form; ``of_cycles`` is the whole for the share."""
        totals = self.totals
        unit, busy = self.busiest_unit
        return {
            **{name: getattr(self, name) for name in _OF_REGION},
            "share": round(totals.cycles / of_cycles, 4),
            "busiest_unit": unit,
            "busy": round(busy, 4),
            **totals.as_dict(),
            "listing": [packet.as_dict() for packet in self.packets],
        }


_OF_REGION = ("kind", "function", "begin", "end", "times", "inside")
_PLAIN = ("cycles", "core_cycles", "fidelity", "device", "cache", "code_bytes", "output_vectors")
"""Fields of an explanation that its JSON form holds as they are."""


@dataclass(frozen=True)
class Explanation:
    """The cycles of one timed call and what they were spent on.

    ``parts`` add up to ``cycles``. ``regions`` hold every packet that ran exactly once, the most
    expensive region first; their cycles add up to ``cycles`` less what a measurer can only tell
    for the whole run (``unplaced``). ``core_cycles`` are the cycles without what DDR adds (0: not
    known), ``cache`` is the condition they were measured under. ``output_vectors`` is the size of
    all outputs in HVX vectors: what figures of two schedules are compared by. ``latency_classes``
    are the rules that instructions refer to.
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
    latency_classes: tuple[LatencyClass, ...] = ()

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
            **{name: getattr(self, name) for name in _PLAIN},
            "split": {group: self.group(group) for group in GROUPS},
            "parts": [asdict(part) for part in self.parts],
            "unplaced": self.unplaced,
            "roofline": self.roofline.as_dict(self.cycles),
            "totals": self.totals.as_dict(),
            "regions": [region.as_dict(self.cycles) for region in self.regions],
            "latency_classes": [asdict(each) for each in self.latency_classes],
        }


@dataclass(frozen=True)
class ComparedFigure:
    """One figure of two schedules: the one asked for and the one it is compared with."""

    name: str
    own: float
    other: float

    @property
    def difference(self) -> float:
        """Positive where the schedule asked for has more."""
        return self.own - self.other


@dataclass(frozen=True)
class Comparison:
    """``speedup`` is how many times faster the schedule asked for is than the other.

    ``groups`` and ``causes`` are cycles; ``causes`` maps each group to its causes, and the pairs
    of either add up to the cycles. ``per_output_vector`` are packets, instructions and accesses
    for each vector of output.
    """

    speedup: float
    groups: tuple[ComparedFigure, ...]
    causes: Mapping[str, tuple[ComparedFigure, ...]]
    per_output_vector: tuple[ComparedFigure, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "speedup": round(self.speedup, 4),
            "groups": [_as_dict(pair) for pair in self.groups],
            "causes": {
                group: [_as_dict(pair) for pair in pairs] for group, pairs in self.causes.items()
            },
            "per_output_vector": [_as_dict(pair) for pair in self.per_output_vector],
        }


def _as_dict(pair: ComparedFigure) -> dict[str, Any]:
    return {**asdict(pair), "difference": round(pair.difference, 4)}


def compare(own: Explanation, other: Explanation) -> Comparison:
    """Holds ``own`` against ``other``, of the same problem."""
    causes: dict[str, tuple[ComparedFigure, ...]] = {}
    for group in GROUPS:
        pairs = _pairs(_causes(own, group), _causes(other, group))
        if pairs:
            causes[group] = tuple(sorted(pairs, key=lambda pair: -abs(pair.difference)))
    return Comparison(
        speedup=other.cycles / own.cycles,
        groups=tuple(
            ComparedFigure(group, own.group(group), other.group(group))
            for group in GROUPS
            if group in causes
        ),
        causes=causes,
        per_output_vector=_pairs(_per_output_vector(own), _per_output_vector(other)),
    )


def _causes(explanation: Explanation, group: Group) -> dict[str, int]:
    return {part.cause: part.cycles for part in explanation.parts if part.group == group}


def _per_output_vector(explanation: Explanation) -> dict[str, float]:
    totals = explanation.totals
    counts = {
        "cycles": explanation.cycles,
        "packets": totals.packets,
        "packets without vector instructions": totals.packets - totals.vector_packets,
        "slots used": totals.slots,
        **dict(sorted(totals.kinds.items(), key=lambda kind: (kind[0][:6] != "vector", kind))),
        "unaligned accesses": totals.unaligned,
        "spills": totals.spills,
    }
    return {name: count / explanation.output_vectors for name, count in counts.items()}


def _pairs(own: Mapping[str, float], other: Mapping[str, float]) -> tuple[ComparedFigure, ...]:
    pairs = (
        ComparedFigure(n, own.get(n, 0), other.get(n, 0)) for n in dict.fromkeys((*own, *other))
    )
    return tuple(pair for pair in pairs if pair.own or pair.other)
