"""A run of the embedded simulator, explained: profile, loops and costs joined."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tuner.kernels import find_kernel
from tuner.measure.explanation import ExplainedPacket, Explanation, Group, Part, Region
from tuner.measure.qemu.cycles import CONTEXTS, DDR_BANDWIDTH, DDR_LATENCY, ISSUE, L2_BANDWIDTH
from tuner.measure.qemu.loops import Loop, find_loops
from tuner.measure.qemu.model import TimingModel
from tuner.measure.qemu.placement import place
from tuner.measure.qemu.profile import profile_of
from tuner.measure.qemu.rules import Rules
from tuner.measure.qemu.simulation import Simulation
from tuner.measure.roofline import roofline_of
from tuner.records.candidate import Measurement, Problem

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
        roofline=roofline_of(
            problem,
            measurement.cycles,
            simulation.timing.ddr_bytes,
            model.parameters.ddr_bandwidth,
        ),
        regions=_regions(packets, loops, simulation.functions),
    )


def _parts(
    measurement: Measurement, packets: Sequence[ExplainedPacket], rules: Rules
) -> Iterator[Part]:
    """The measurement's own breakdown, grouped, with the packets told apart by what they do."""
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
