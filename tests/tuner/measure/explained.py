"""Explanations of a few packets of assembly."""

from __future__ import annotations

from pathlib import Path

from tests.tuner.measure.qemu.microbenchmark import MODEL, PREAMBLE, TARGET, run_packets
from tuner.conformance.candidates import scale_problem
from tuner.measure.explanation import ExplainedPacket, Explanation, Region
from tuner.measure.qemu.explain import explanation_of
from tuner.measure.qemu.session import Caches
from tuner.problem.target import Target
from tuner.records.candidate import Measurement


def explain_packets(
    assembly: str, folder: Path, caches: Caches = "none", target: Target = TARGET
) -> Explanation:
    """Runs ``assembly`` behind the microbenchmarks' preamble and explains it.

    The problem, which decides output size and roofline, is the rig's ``scale_u8``.
    """
    simulation = run_packets(PREAMBLE + assembly, folder, caches, target, keep_text=True)
    timing = simulation.timing
    measurement = Measurement(
        cycles=timing.cycles,
        packets=timing.packets,
        stalls=max(timing.cycles - timing.packets, 0),
        verified=True,
        fidelity="model",
        device="qemu",
        breakdown=timing.breakdown,
        core_cycles=timing.core_cycles,
    )
    return explanation_of(scale_problem(), measurement, simulation, MODEL)


def packet_with(explanation: Explanation, text: str) -> ExplainedPacket:
    """The only packet that holds ``text``."""
    found = [p for region in explanation.regions for p in region.packets if text in p.text]
    assert len(found) == 1, [p.text for p in found]
    return found[0]


def region_with(explanation: Explanation, text: str) -> Region:
    """The region of the only packet that holds ``text``."""
    packet = packet_with(explanation, text)
    return next(region for region in explanation.regions if packet in region.packets)
