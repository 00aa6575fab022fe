"""One candidate under the simulator: linked, run on all cases, judged, its events read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tuner.errors import CandidateError
from tuner.measure.image import Image
from tuner.measure.qemu.bounds import packed_bounds
from tuner.measure.qemu.launch import ImageMemory, Runs, run
from tuner.measure.qemu.program import linked
from tuner.measure.qemu.screen import screen
from tuner.measure.qemu.session import Orders, Results, Session
from tuner.measure.qemu.simulator import find_simulator
from tuner.measure.qemu.timing import Timing, timing_of
from tuner.measure.qemu.verdict import judge
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome


@dataclass(frozen=True)
class Simulation:
    """A run that ended well.

    ``texts`` holds QEMU's disassembly of each row of ``results.packet_table`` if the orders asked
    to keep it, else nothing; ``functions`` then names functions by their first address.
    ``analysis_s`` is the wall time from the end of the run to cycles.
    """

    timing: Timing
    results: Results
    texts: tuple[str, ...]
    functions: Mapping[int, str] = field(hash=False)
    code_bytes: int
    link_s: float
    run_s: float
    analysis_s: float


def simulate(
    artifact: Artifact,
    image: Image,
    orders: Orders,
    timeout_s: float,
    runs: Runs | None = None,
) -> Simulation:
    """Runs ``artifact`` on the cases of ``image`` and checks every byte.

    ``image`` must have as many practice calls as ``orders`` expect. Raises ``CandidateError`` with
    the outcome the candidate has earned, ``DeviceError`` or ``ToolchainError`` as ``judge`` does;
    ``DeviceError`` also if ``runs`` are ended meanwhile.
    """
    screen(artifact.object_bytes, orders.target.arch, find_simulator().release)
    start = time.perf_counter()
    with (
        linked(artifact, orders.target.arch) as program,
        Session(
            replace(orders, candidate_bytes=program.code_bytes), packed_bounds(image)
        ) as session,
        ImageMemory(image) as memory,
    ):
        linked_at = time.perf_counter()
        ending = run(find_simulator(), program, session, memory.descriptor, timeout_s, runs)
        ended_at = time.perf_counter()
        results = session.results()
        judge(ending, results, program, image, memory.contents(), orders.target, timeout_s)
        judged_at = time.perf_counter()
        timing = timing_of(results, orders.model, orders.target.hvx_contexts)
        if orders.timed_cycles and timing.cycles > orders.timed_cycles:
            # The plugin stops at a lower bound that leaves fractions of cycles out.
            raise CandidateError(Outcome.CUTOFF, f"stopped after {timing.cycles} cycles")
        return Simulation(
            timing=timing,
            results=results,
            texts=_texts(session, results) if orders.keep_text else (),
            functions=program.functions() if orders.keep_text else {},
            code_bytes=program.code_bytes,
            link_s=linked_at - start,
            run_s=ended_at - linked_at,
            analysis_s=time.perf_counter() - judged_at,
        )


def _texts(session: Session, results: Results) -> tuple[str, ...]:
    """Where the memory for texts was full, the offset stayed 0: the text of the first packet."""
    offsets = results.packet_table["text"]
    return tuple(session.text(int(at)) if at or not row else "" for row, at in enumerate(offsets))
