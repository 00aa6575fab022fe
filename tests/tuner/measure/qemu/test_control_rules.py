"""Branches, hardware loops and parallel loops: what they cost, each by the packets that show it.

Costs are those of the parameter file, which names their sources; what they come to is worked out
here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.measure.qemu.microbenchmark import MODEL, TARGET, run_packets, time_packets

COST = MODEL.parameters


def branching(rounds: int, taken_when: str) -> str:
    """A loop of ``rounds`` with a conditional jump over one packet; r5 counts the rounds."""
    return f"""
        {{ r5 = #0 ; r6 = ##{rounds} }}
        {{ loop0(1f, r6) }}
        1: {{ r7 = {taken_when} }}
        {{ nop }}
        {{ p0 = cmp.eq(r7, #0) ; if (p0.new) jump:t 2f }}
        {{ nop }}
        2: {{ r5 = add(r5, #1) }}:endloop0
    """


@pytest.mark.parametrize(
    ("taken_when", "mispredicted"),
    [
        ("#1", 0),  # never
        ("and(r5, #1)", 500),  # every second time
        ("sub(#0, r5)", 1),  # the first time only
    ],
)
def test_the_rarer_way_of_a_conditional_jump_is_mispredicted(
    tmp_path: Path, taken_when: str, mispredicted: int
) -> None:
    cost = time_packets(branching(1000, taken_when), tmp_path)
    assert cost.events["mispredicts"] == mispredicted
    assert cost.breakdown.get("branch", 0) == mispredicted * COST.mispredict
    assert cost.cycles == cost.packets + cost.stalls + mispredicted * COST.mispredict


def test_a_hardware_loop_jumps_back_for_nothing(tmp_path: Path) -> None:
    body = "{ loop0(1f, #100) }\n1: { nop }\n{ nop }:endloop0\n"
    cost = time_packets(body, tmp_path)
    assert cost.events["loop_ends"] == 100
    assert cost.cycles == 1 + 2 * 100 + 100 * COST.loop_end


# Parallel loops


def parallel(tasks: int, rounds: str, loops: int = 1) -> str:
    """``loops`` parallel loops of ``tasks`` tasks; a task runs ``rounds`` x 2 packets."""
    call = f"""
        {{ r0 = #0 ; r1 = ##7f }}
        {{ r3:2 = combine(#{tasks}, #0) ; r4 = #0 }}
        {{ call halide_do_par_for }}
    """
    return f"""
        {{ allocframe(#0) }}
        {call * loops}
        {{ deallocframe }}
        {{ jump 9f }}
        .p2align 4
        7: {{ r5 = {rounds} }}
        {{ loop0(8f, r5) }}
        8: {{ nop }}
        {{ nop }}:endloop0
        {{ r0 = #0 ; jumpr r31 }}
        9: {{ nop }}
    """


def cycles(body: str, folder: Path, contexts: int) -> int:
    return run_packets(body, folder, "none", replace(TARGET, hvx_contexts=contexts)).timing.cycles


@pytest.mark.parametrize("contexts", [1, 4])
def test_tasks_go_to_the_first_context_that_is_free(tmp_path: Path, contexts: int) -> None:
    tasks = 6
    # 2000 packets more in every task make the loop longer by those of the context with most tasks.
    more = cycles(parallel(tasks, "##2000"), tmp_path, contexts)
    less = cycles(parallel(tasks, "##1000"), tmp_path, contexts)
    assert more - less == -(-tasks // contexts) * 2000


def test_every_loop_and_every_task_has_its_price(tmp_path: Path) -> None:
    one = run_packets(parallel(4, "#1"), tmp_path).timing
    assert one.events.count("parallel_loops") == 1
    assert one.events.count("tasks") == 4
    # The four contexts take a task each.
    each = COST.parallel_loop + COST.task
    assert one.breakdown["parallel loop"] == pytest.approx(each, abs=5)
    two = run_packets(parallel(4, "#1", loops=2), tmp_path).timing
    assert two.breakdown["parallel loop"] == pytest.approx(2 * each, abs=10)
