"""Times a few packets of assembly with the embedded simulator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.conformance.candidates import artifact_of
from tuner.conformance.patience import PATIENCE_S
from tuner.measure.cases import Case, CaseSet
from tuner.measure.image import image_of
from tuner.measure.qemu.events import EVENTS
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Caches, Orders
from tuner.measure.qemu.simulation import Simulation, Timing, simulate
from tuner.problem.target import Target, find_target

TARGET = find_target("hexagon-v66")
MODEL = find_model(TARGET.arch)
_EMPTY: dict[Caches, Timing] = {}
"""What the preamble and the return cost: timed once for each state of the caches."""


@dataclass(frozen=True)
class Cost:
    """What packets cost beyond the code around them: cycles by cause, and events by name."""

    packets: int
    stalls: int
    stalls_by_cause: dict[str, int]
    breakdown: dict[str, int]
    events: dict[str, int]

    @property
    def cycles(self) -> int:
        return sum(self.breakdown.values())


# r10 points to vector-aligned memory with room on both sides, r11 to the same address kept there.
PREAMBLE = """
    { r10 = and(r29, #-128) }
    { r10 = add(r10, #-4096) ; r0 = #0 }
    { memw(r10+#0) = r10 ; r11 = r10 }
    { v0 = vsplat(r0) ; r1 = #1 }
    { v1 = v0 ; v2 = v0 ; r2 = #2 }
    { v3 = v0 ; v4 = v0 ; r3 = #3 }
    { nop }
    { nop }
"""


def time_packets(
    assembly: str, folder: Path, caches: Caches = "none", target: Target = TARGET
) -> Cost:
    """What ``assembly`` costs, between a preamble and a return that wait for nothing.

    ``{a ; b}`` on a line is a packet. Registers r0 to r9 and v0 to v9 are free to use; r10 stays.
    Memory costs nothing unless ``caches`` says in which state they are.
    """
    if caches not in _EMPTY:
        _EMPTY[caches] = run_packets(PREAMBLE, folder, caches).timing
    with_body = run_packets(PREAMBLE + assembly, folder, caches, target).timing
    empty = _EMPTY[caches]
    stalls = _difference(with_body.stalls_by_cause, empty.stalls_by_cause)
    return Cost(
        packets=with_body.packets - empty.packets,
        stalls=sum(stalls.values()),
        stalls_by_cause=stalls,
        breakdown=_difference(with_body.breakdown, empty.breakdown),
        events={name: with_body.events.count(name) - empty.events.count(name) for name in EVENTS},
    )


def _difference(more: dict[str, int], less: dict[str, int]) -> dict[str, int]:
    each = {name: more.get(name, 0) - less.get(name, 0) for name in {*more, *less}}
    return {name: count for name, count in each.items() if count}


def run_packets(
    body: str,
    folder: Path,
    caches: Caches = "none",
    target: Target = TARGET,
    budget_cycles: int = 0,
    keep_text: bool = False,
) -> Simulation:
    """Runs ``body`` as a function of its own, with ``budget_cycles`` if they are not 0."""
    source = folder / "bench.S"
    code = body.replace(" ; ", "\n")
    source.write_text(
        f"  .globl bench\nbench:\n{code}\n  {{ r0 = #0 }}\n  {{ nop }}\n  {{ jumpr r31 }}\n"
    )
    artifact = artifact_of(source, "bench", ("-mcpu=hexagonv66+hvxv66+hvx_length128b",))
    orders = Orders(MODEL, target, caches=caches, timed_cycles=budget_cycles, keep_text=keep_text)
    image = image_of(CaseSet((Case("none", ()),)), target, orders.timed_call - 1)
    return simulate(artifact, image, orders, timeout_s=PATIENCE_S)


def nops(count: int) -> str:
    """``count`` packets that neither wait nor make anyone wait."""
    return "{ nop }\n" * count
