"""The early end of slow candidates: on the cycles that are compared, whatever they go into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuner.measure.qemu.microbenchmark import TARGET, run_packets
from tuner.errors import CandidateError
from tuner.measure.qemu.session import Caches
from tuner.records.outcome import Outcome

BLOCK = 16
"""Cycles of a loop's body here: a run stops at the end of one."""

HEAP = "{ r4 = ##0x80000000 }\n"
LOOP = "{{ r5 = r4 ; r6 = ##{rounds} }}\n{{ loop0(1f, r6) }}\n1: {packets}:endloop0\n"


def loop(rounds: int, *packets: str) -> str:
    return HEAP + LOOP.format(rounds=rounds, packets="\n".join(packets))


BODIES: dict[str, tuple[Caches, str]] = {
    "dependency stalls": (
        "none",
        loop(5000, "{ v5.b = vadd(v1.b,v2.b) }", "{ v6.uw = vrmpy(v5.ub,v2.ub) }"),
    ),
    "DDR latency": ("cold", loop(5000, "{ v5 = vmem(r5+#0) }", "{ r5 = add(r5, #128) }")),
    "mispredicts": (
        "none",
        loop(
            4000,
            "{ p0 = tstbit(r5, #0) ; r5 = add(r5, #1) }",
            "{ if (p0) jump:nt 2f }",
            "{ nop }",
            "2: { nop }",
            "{ nop }",
        ),
    ),
}


def stopped_after(body: str, folder: Path, caches: Caches, budget: int) -> int:
    with pytest.raises(CandidateError) as caught:
        run_packets(body, folder, caches, TARGET, budget)
    assert caught.value.outcome is Outcome.CUTOFF
    return int(caught.value.message.split()[2].replace(",", ""))


@pytest.mark.slow
@pytest.mark.parametrize(("caches", "body"), BODIES.values(), ids=list(BODIES))
def test_a_run_ends_at_most_one_percent_past_its_budget(
    tmp_path: Path, caches: Caches, body: str
) -> None:
    cycles = run_packets(body, tmp_path, caches).timing.cycles
    assert run_packets(body, tmp_path, caches, TARGET, cycles).timing.cycles == cycles
    for share in (0.2, 0.6, 0.98):
        budget = int(cycles * share)
        spent = stopped_after(body, tmp_path, caches, budget)
        assert budget < spent <= 1.01 * budget + BLOCK
    assert stopped_after(body, tmp_path, caches, cycles - 1) == cycles


def test_contexts_that_share_the_work_are_counted_in(tmp_path: Path) -> None:
    body = """
        { allocframe(#0) ; r0 = #0 }
        { r3:2 = combine(#8, #0) ; r1 = ##7f }
        { r4 = #0 }
        { call halide_do_par_for }
        { deallocframe }
        { jump 9f }
        7: { r5 = ##3000 }
        { loop0(8f, r5) }
        8: { nop }
        { nop }:endloop0
        { r0 = #0 ; jumpr r31 }
        9: { nop }
    """
    timing = run_packets(body, tmp_path).timing
    assert timing.cycles < timing.packets
    assert run_packets(body, tmp_path, "none", TARGET, timing.cycles).timing.cycles == timing.cycles
    stopped_after(body, tmp_path, "none", timing.cycles - 1)
    stopped_after(body, tmp_path, "none", timing.cycles // 2)
