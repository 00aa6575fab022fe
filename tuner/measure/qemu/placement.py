"""The cycles of a run, given to the packets that caused them.

Issue and dependency stalls are known for each packet. What events cost the model works out for
the whole run: it goes to the packets in proportion to how much of it happened at each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tuner.measure.explanation import ExplainedPacket
from tuner.measure.qemu.cycles import DDR_BANDWIDTH, DDR_LATENCY, ISSUE, L2_BANDWIDTH
from tuner.measure.qemu.disassembly import GATHER, SCATTER, VECTOR_LOAD, VECTOR_STORE
from tuner.measure.qemu.parameters import Parameters
from tuner.measure.qemu.profile import RARER_WAY, ProfiledPacket

_EVENT_OF_CAUSE = {
    "L1 miss": "l1_misses",
    "line split": "line_splits",
    "store to load": "store_to_load",
    DDR_LATENCY: "l2_misses",
    DDR_BANDWIDTH: "l2_misses",
}
_KINDS_OF_CAUSE = {
    "L2 access": (VECTOR_LOAD, VECTOR_STORE),
    L2_BANDWIDTH: (VECTOR_LOAD, VECTOR_STORE),
    "gather and scatter": (GATHER, SCATTER),
}
"""Causes of ``cycles.CAUSES`` that have no count of their own at packets: every such instruction
takes its part."""


def place(
    profile: Sequence[ProfiledPacket], breakdown: Mapping[str, int], parameters: Parameters
) -> list[ExplainedPacket]:
    """``profile`` with the cycles of ``breakdown``, by cause, shared out among its packets.

    The packets' cycles of each cause add up to that cause's, but for causes that nothing at any
    packet tells of: those are left out.
    """
    parts = {
        cause: apportion(cycles, [_weight(cause, packet, parameters) for packet in profile])
        for cause, cycles in breakdown.items()
    }
    issue = parts.pop(ISSUE, [0] * len(profile))
    return [
        _explained(packet, issue[i], {cause: of[i] for cause, of in parts.items() if of[i]})
        for i, packet in enumerate(profile)
    ]


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Whole parts of ``total`` in proportion to ``weights``, by largest remainders.

    They add up to ``total``; all are 0 if all weights are.
    """
    exact = [Fraction(weight) for weight in weights]
    whole = sum(exact)
    if not whole:
        return [0] * len(weights)
    shares = [total * weight / whole for weight in exact]
    parts = [int(share) for share in shares]
    by_remainder = sorted(range(len(parts)), key=lambda i: (parts[i] - shares[i], i))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def _weight(cause: str, packet: ProfiledPacket, parameters: Parameters) -> float:
    if cause == ISSUE:
        return packet.count
    weight = float(packet.stalls.get(cause, 0))
    kinds = _KINDS_OF_CAUSE.get(cause, ())
    weight += packet.count * sum(packet.decoded.kinds.get(kind, 0) for kind in kinds)
    weight += packet.events.get(_EVENT_OF_CAUSE.get(cause, ""), 0)
    if cause == "branch":
        weight += parameters.mispredict * packet.events.get(RARER_WAY, 0)
        weight += parameters.loop_end * packet.count * bool(packet.decoded.flow.loop_ends)
    return weight


def _explained(packet: ProfiledPacket, issue: int, stalls: dict[str, int]) -> ExplainedPacket:
    decoded = packet.decoded
    return ExplainedPacket(
        address=packet.address,
        size_bytes=decoded.size_bytes,
        count=packet.count,
        issue=issue,
        text=decoded.text,
        stalls=stalls,
        events=packet.events,
        kinds=decoded.kinds,
        slots=decoded.slots,
        unaligned=decoded.unaligned,
        spills=packet.spills,
    )
