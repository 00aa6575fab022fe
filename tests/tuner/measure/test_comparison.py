"""The roofline of a problem, and two explanations held against each other."""

from __future__ import annotations

import pytest

from tests.tuner.measure.explained import explain_packets
from tuner.kernels import find_kernel
from tuner.measure.explanation import Explanation, Roofline, compare, roofline_of
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
PEAK_MACS = 256  # two multipliers of 128 byte lanes: tuner/problem/target.py


def gemm_roofline(cycles: int, moved_bytes: int = 0) -> Roofline:
    params = {"m": 64, "n": 128, "k": 32}
    problem = find_kernel("gemm_u8").problem(params, Contract.STATIC, TARGET)
    return roofline_of(problem, cycles, moved_bytes, ddr_bytes_per_cycle=16.0)


def test_the_roofline_of_a_gemm_is_the_multiplier() -> None:
    roofline = gemm_roofline(cycles=4096)
    multiply = roofline.binding
    assert (multiply.resource, multiply.work) == ("multiply", 64 * 128 * 32)
    assert multiply.per_cycle == PEAK_MACS
    assert roofline.peak_cycles == 64 * 128 * 32 / PEAK_MACS
    assert roofline.share_of_peak == roofline.peak_cycles / 4096
    assert roofline.memory is None


LOOP = "{{ loop0(1f,#{times}) }}\n1: {{ v6.uw = vrmpy(v5.ub,v1.ub) }}\n{last}:endloop0\n"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Explanation, Explanation]:
    """A loop of 10 without stalls, and one of 20 that stalls and loads unaligned."""
    fast = LOOP.format(times=10, last="{ v7 = v1 }")
    slow = LOOP.format(times=20, last="{ v5 = vmemu(r10+#0) }")
    return tuple(explain_packets(body, tmp_path_factory.mktemp("both")) for body in (fast, slow))  # type: ignore[return-value]


def test_differences_add_up_to_that_of_the_cycles(both: tuple[Explanation, Explanation]) -> None:
    own, other = both
    comparison = compare(own, other)
    difference = own.cycles - other.cycles
    assert sum(pair.difference for pair in comparison.groups) == difference
    causes = [pair for pairs in comparison.causes.values() for pair in pairs]
    assert sum(pair.difference for pair in causes) == difference
    assert comparison.speedup == other.cycles / own.cycles > 1
    turned = compare(other, own)
    assert [pair.difference for pair in turned.groups] == [
        -pair.difference for pair in comparison.groups
    ]


def test_a_cause_only_one_has_is_in_the_comparison(both: tuple[Explanation, Explanation]) -> None:
    comparison = compare(*both)
    (stall,) = comparison.causes["dependency"]
    assert (stall.name, stall.own, stall.other) == ("vector multiply", 0, 19)
