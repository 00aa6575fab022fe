"""Times a few packets of assembly with the embedded simulator."""

from __future__ import annotations

from pathlib import Path

from tests.tuner.measure.candidates import artifact_of
from tuner.measure.cases import Case, CaseSet
from tuner.measure.image import image_of
from tuner.measure.qemu.launch import ImageMemory, run
from tuner.measure.qemu.program import CANDIDATE_BEGIN, WINDOW_BEGIN, WINDOW_END, linked
from tuner.measure.qemu.rules import find_rules
from tuner.measure.qemu.session import Orders, Session, State
from tuner.measure.qemu.simulator import find_simulator
from tuner.measure.qemu.timing import Timing, timing_of
from tuner.target import find_target

_TARGET = find_target("hexagon-v66")
_EMPTY: list[Timing] = []
"""What the preamble and the return cost: timed once."""

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


def time_packets(assembly: str, folder: Path) -> Timing:
    """What ``assembly`` costs, between a preamble and a return that wait for nothing.

    ``{a ; b}`` on a line is a packet. Registers r0 to r11 and v0 to v9 are free to use.
    """
    with_body = _time(PREAMBLE + assembly, folder)
    if not _EMPTY:
        _EMPTY.append(_time(PREAMBLE, folder))
    empty = _EMPTY[0]
    causes = {
        cause: stalls - empty.stalls_by_cause.get(cause, 0)
        for cause, stalls in with_body.stalls_by_cause.items()
    }
    return Timing(
        packets=with_body.packets - empty.packets,
        stalls=with_body.stalls - empty.stalls,
        stalls_by_cause={cause: stalls for cause, stalls in causes.items() if stalls},
    )


def _time(body: str, folder: Path) -> Timing:
    source = folder / "bench.S"
    code = body.replace(" ; ", "\n")
    source.write_text(
        f"  .globl bench\nbench:\n{code}\n  {{ nop }}\n  {{ nop }}\n  {{ jumpr r31 }}\n"
    )
    artifact = artifact_of(source, "bench", ("-mcpu=hexagonv66+hvxv66+hvx_length128b",))
    image = image_of(CaseSet((Case("none", ()),)), _TARGET)
    rules = find_rules(_TARGET.arch)
    with (
        linked(artifact, _TARGET.arch) as program,
        Session(Orders(WINDOW_BEGIN, WINDOW_END, CANDIDATE_BEGIN, rules)) as session,
        ImageMemory(image) as memory,
    ):
        ending = run(find_simulator(), program, session, memory.descriptor, timeout_s=20)
        results = session.results()
        assert results.state is State.FINISHED, (results, ending)
        return timing_of(results, rules)
