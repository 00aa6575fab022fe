"""Explanations: every cycle has a cause and a place, and both are the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuner.measure.explained import explain_packets, packet_with
from tuner.conformance.candidates import scale_artifact, scale_problem
from tuner.measure.explanation import Explanation
from tuner.measure.qemu.explain import apportion
from tuner.measure.qemu.measurer import QemuMeasurer

HEAP = "{ r4 = ##0x80000000 }\n"
MIXED = (
    HEAP
    + """
    { r9 = #50 ; r8 = #0 }
    { loop0(1f,r9) }
    1: { r5 = memw(r4+#0) ; r8 = add(r8,#1) }
    { r6 = add(r5,#1) ; p0 = cmp.eq(r8,#7) ; if (!p0.new) jump:t 2f }
    { v5.b = vadd(v1.b,v2.b) }
    { vmemu(r4+#1) = v5 }
    { r7 = memw(r10+#0) }
    { r7 = memw(r7+#0) }
    2: { v6 = vmem(r4+#2) ; r4 = add(r4,#256) }
    { v7.uw = vrmpy(v6.ub,v1.ub) }:endloop0
    """
)
"""A loop with stalls of several causes, misses, unaligned stores and a conditional jump."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    return explain_packets(MIXED, tmp_path_factory.mktemp("mixed"), "cold")


def require_sums(explanation: Explanation) -> None:
    """What holds for every explanation."""
    assert sum(part.cycles for part in explanation.parts) == explanation.cycles
    placed = sum(p.cycles for region in explanation.regions for p in region.packets)
    assert placed + explanation.unplaced == explanation.cycles
    totals = explanation.totals
    for part in explanation.parts:
        if part.group != "issue":
            assert totals.stalls.get(part.cause, 0) in (part.cycles, 0)
    assert totals.issue == explanation.group("issue")


def test_every_cycle_has_a_cause_and_a_packet(mixed: Explanation) -> None:
    require_sums(mixed)
    assert mixed.unplaced == 0
    assert {part.group for part in mixed.parts} >= {"issue", "dependency", "cache", "ddr"}


def test_cycles_are_those_that_were_measured() -> None:
    problem = scale_problem()
    artifact = scale_artifact(problem)
    with QemuMeasurer() as measurer:
        measurement = measurer.measure(problem, artifact).measurement
        explanation = measurer.explain(problem, artifact)
    require_sums(explanation)
    assert explanation.cycles == measurement.cycles
    assert explanation.core_cycles == measurement.core_cycles
    assert explanation.totals.packets == measurement.packets
    assert explanation.code_bytes == measurement.code_bytes
    assert explanation.output_vectors == 4 * 500 / problem.target.vector_bytes


STALLS = [
    (
        "{ v5.b = vadd(v1.b,v2.b) }\n{ v6.uw = vrmpy(v5.ub,v2.ub) }",
        "vrmpy",
        {"vector multiply": 1},
    ),
    ("{ v5.b = vadd(v1.b,v2.b) }\n{ v6.b = vadd(v5.b,v2.b) }", "v6.b = vadd", {}),
]


@pytest.mark.parametrize(("packets", "text", "stalls"), STALLS)
def test_a_stall_is_booked_at_the_packet_that_waits(
    tmp_path: Path, packets: str, text: str, stalls: dict[str, int]
) -> None:
    explanation = explain_packets(packets, tmp_path)
    assert packet_with(explanation, text).stalls == stalls
    assert explanation.totals.stalls == stalls


@given(
    total=st.integers(0, 10**12),
    weights=st.lists(st.one_of(st.integers(0, 10**9), st.floats(0, 1e6)), min_size=1, max_size=50),
)
def test_apportioned_parts_add_up_and_are_in_proportion(total: int, weights: list[float]) -> None:
    parts = apportion(total, weights)
    if not any(weights):
        assert set(parts) == {0}
        return
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        exact = total * weight / sum(weights)
        assert abs(part - exact) < 1 + 1e-6 * exact
        assert weight or not part
