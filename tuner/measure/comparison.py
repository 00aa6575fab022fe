"""Two explanations side by side: why one schedule of a problem is faster than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tuner.measure.explanation import GROUPS, Explanation, Group


@dataclass(frozen=True)
class Pair:
    """One figure of both: of the schedule asked for, and of the one it is held against."""

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
    groups: tuple[Pair, ...]
    causes: Mapping[str, tuple[Pair, ...]]
    per_output_vector: tuple[Pair, ...]

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


def _as_dict(pair: Pair) -> dict[str, Any]:
    return {**asdict(pair), "difference": round(pair.difference, 4)}


def compare(own: Explanation, other: Explanation) -> Comparison:
    """Holds ``own`` against ``other``, of the same problem."""
    causes: dict[str, tuple[Pair, ...]] = {}
    for group in GROUPS:
        pairs = _pairs(_causes(own, group), _causes(other, group))
        if pairs:
            causes[group] = tuple(sorted(pairs, key=lambda pair: -abs(pair.difference)))
    return Comparison(
        speedup=other.cycles / own.cycles,
        groups=tuple(
            Pair(group, own.group(group), other.group(group)) for group in GROUPS if group in causes
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


def _pairs(own: Mapping[str, float], other: Mapping[str, float]) -> tuple[Pair, ...]:
    pairs = (Pair(n, own.get(n, 0), other.get(n, 0)) for n in dict.fromkeys((*own, *other)))
    return tuple(pair for pair in pairs if pair.own or pair.other)
