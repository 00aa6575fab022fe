"""A run of the embedded simulator, explained: counts by packet, their cycles, loops and code.

A packet's counts are added up over all blocks it is part of. QEMU's blocks overlap, as a loop's
first iteration belongs to the block that runs into it: packets are identified by address alone.
Issue and dependency stalls are known for each packet. The model works out the cost of events for
the whole run: it goes to the packets in proportion to how much of it happened at each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuner.kernels import find_kernel
from tuner.measure.explanation import ExplainedPacket, Explanation, Group, Part, Region
from tuner.measure.qemu.cycles import CONTEXTS, DDR_BANDWIDTH, DDR_LATENCY, ISSUE, L2_BANDWIDTH
from tuner.measure.qemu.disassembly import Decoded, decode, stack_accesses
from tuner.measure.qemu.loops import Loop, find_loops
from tuner.measure.qemu.model import Parameters, Rules, TimingModel
from tuner.measure.qemu.session import Results
from tuner.measure.qemu.simulation import Simulation
from tuner.measure.qemu.units import GATHER, SCATTER, VECTOR_LOAD, VECTOR_STORE
from tuner.measure.roofline import roofline_of
from tuner.records.candidate import Measurement, Problem

RARER_WAY = "rarer_way"
"""How often a conditional jump went the way it goes less often."""
_NOT_COUNTED = ("address", "text", "traits", "unused")
"""Fields of the packet table that count nothing; all others are events."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ProfiledPacket:
    """A packet that ran: how often, its dependency stalls by cause, what else happened there.

    Of all threads together, before the model makes cycles of them. ``spills`` are the vector
    accesses to the stack frame in one execution.
    """

    address: int
    count: int
    stalls: Mapping[str, int] = field(hash=False)
    events: Mapping[str, int] = field(hash=False)
    decoded: Decoded
    spills: int


def profile_of(simulation: Simulation, rules: Rules) -> list[ProfiledPacket]:
    """The packets of the timed call by address. The run must have kept the disassembly.

    Counts and stalls add up to the sums of the run's ``timing``.
    """
    results = simulation.results
    addresses, first, of_record = np.unique(
        results.packet_table["address"], return_index=True, return_inverse=True
    )
    places = _Places(results)
    of_place = of_record[places.record]
    counts: Counts = np.zeros(addresses.size, np.int64)
    np.add.at(counts, of_place, places.count)
    stalls: Counts = np.zeros((addresses.size, len(rules.causes)), np.int64)
    np.add.at(stalls, (of_place, places.cause), places.count * places.stalls)
    events = _events(results, addresses, of_record)
    ran = np.flatnonzero(counts)
    decoded = {}
    for i in ran:
        address = int(addresses[i])
        text = simulation.texts[first[i]]
        decoded[address] = decode(address, text, rules, simulation.functions)
    spills = stack_accesses(decoded)
    return [
        ProfiledPacket(
            address=address,
            count=int(counts[i]),
            stalls={rules.causes[c]: int(stalls[i, c]) for c in np.flatnonzero(stalls[i])},
            events={name: int(of[i]) for name, of in events.items() if of[i]},
            decoded=packet,
            spills=spills[address],
        )
        for i, (address, packet) in zip(ran, decoded.items(), strict=True)
    ]


class _Places:
    """Every packet of every transition: its row in the packet table, what it cost each time."""

    def __init__(self, results: Results) -> None:
        entered = results.transitions
        lengths = results.blocks["packets"][entered["block"]].astype(np.int64)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first = results.blocks["first_packet"][entered["block"]].astype(np.int64)
        details = np.repeat(entered["details"].astype(np.int64), lengths) + within
        self.record = np.repeat(first, lengths) + within
        self.count = np.repeat(entered["count"].astype(np.int64), lengths)
        self.stalls = results.details["stalls"][details].astype(np.int64)
        self.cause = results.details["cause"][details]


def _events(
    results: Results, addresses: NDArray[Any], of_record: NDArray[np.intp]
) -> dict[str, Counts]:
    """Whatever else is counted at each of ``addresses``, by name; each event has that shape."""
    events = {}
    table = results.packet_table
    for name in table.dtype.names or ():
        if name not in _NOT_COUNTED:
            events[name] = np.zeros(addresses.size, np.int64)
            np.add.at(events[name], of_record, table[name].astype(np.int64))
    events[RARER_WAY] = np.zeros(addresses.size, np.int64)
    at = np.searchsorted(addresses, results.branches["address"])
    events[RARER_WAY][at] = results.branches["went_to"].min(axis=1)
    return events


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

    The packets' cycles of each cause add up to that cause's, except for causes that no packet
    shows: those are left out.
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
        units=decoded.units,
        slots=decoded.slots,
        unaligned=decoded.unaligned,
        spills=packet.spills,
        instructions=decoded.placed,
    )


_GROUPS: Mapping[str, Group] = {
    "branch": "branch",
    "line split": "cache",
    "store to load": "cache",
    "L1 miss": "cache",
    "L2 access": "cache",
    "VTCM access": "cache",
    "gather and scatter": "cache",
    L2_BANDWIDTH: "cache",
    DDR_LATENCY: "ddr",
    DDR_BANDWIDTH: "ddr",
    "parallel loop": "parallel",
    CONTEXTS: "parallel",
}
"""Groups of the causes in ``cycles.CAUSES``; those of the class table are dependencies."""


def explanation_of(
    problem: Problem, measurement: Measurement, simulation: Simulation, model: TimingModel
) -> Explanation:
    """Explains ``measurement`` by the ``simulation`` it came from, which kept its texts."""
    profile = profile_of(simulation, model.rules)
    packets = place(profile, measurement.breakdown, model.parameters)
    loops = find_loops({packet.address: packet.decoded for packet in profile})
    buffers = find_kernel(problem.workload.kernel).buffers(problem.workload.params)
    output_bytes = sum(spec.payload_bytes for spec in buffers if spec.role == "output")
    return Explanation(
        cycles=measurement.cycles,
        core_cycles=measurement.core_cycles,
        fidelity=measurement.fidelity,
        device=measurement.device,
        cache=measurement.cache,
        code_bytes=measurement.code_bytes,
        output_vectors=output_bytes / problem.target.vector_bytes,
        parts=tuple(_parts(measurement, packets, model.rules)),
        roofline=roofline_of(problem, measurement.cache),
        regions=_regions(packets, loops, simulation.functions),
        latency_classes=model.rules.classes,
    )


def _parts(
    measurement: Measurement, packets: Sequence[ExplainedPacket], rules: Rules
) -> Iterator[Part]:
    """The measurement's own breakdown, grouped, with packets split by what they do."""
    for cause, cycles in measurement.breakdown.items():
        if cause == ISSUE:
            vector = sum(packet.issue for packet in packets if packet.vector_instructions)
            yield Part("issue", "packets with vector instructions", vector)
            yield Part("issue", "packets without", cycles - vector)
        else:
            yield Part(group_of(cause, rules), cause, cycles)


def group_of(cause: str, rules: Rules) -> Group:
    """The group of a cause in a measurement's breakdown."""
    return _GROUPS.get(cause) or ("dependency" if cause in rules.causes else "other")


def _regions(
    packets: Sequence[ExplainedPacket], loops: Sequence[Loop], functions: Mapping[int, str]
) -> tuple[Region, ...]:
    """Every packet in its innermost loop, else in its function; most cycles first."""
    innermost: dict[int, Loop] = {}
    for loop in reversed(loops):
        innermost.update(dict.fromkeys(loop.body, loop))  # inner loops come later
    starts = sorted(functions)
    of_loop: dict[Loop, list[ExplainedPacket]] = defaultdict(list)
    of_function: dict[int, list[ExplainedPacket]] = defaultdict(list)
    for packet in packets:
        if packet.address in innermost:
            of_loop[innermost[packet.address]].append(packet)
        else:
            of_function[_start_of(packet.address, starts)].append(packet)
    regions = [
        _region("loop", _name(loop.header, starts, functions), loop.header, own, loop.inside)
        for loop, own in of_loop.items()
    ]
    regions += [
        _region("straight", _name(start, starts, functions), own[0].address, own)
        for start, own in of_function.items()
    ]
    return tuple(sorted(regions, key=lambda region: (-region.totals.cycles, region.begin)))


def _region(
    kind: Literal["loop", "straight"],
    function: str,
    begin: int,
    own: Sequence[ExplainedPacket],
    inside: int | None = None,
) -> Region:
    return Region(
        kind=kind,
        function=function,
        begin=begin,
        end=own[-1].address + own[-1].size_bytes,
        times=next(packet.count for packet in own if packet.address == begin),
        inside=inside,
        packets=tuple(own),
    )


def _start_of(address: int, starts: Sequence[int]) -> int:
    """Where the function begins that holds ``address``."""
    place = bisect_right(starts, address)
    return starts[place - 1] if place else address


def _name(address: int, starts: Sequence[int], functions: Mapping[int, str]) -> str:
    return functions.get(_start_of(address, starts), f"{address:#x}")
