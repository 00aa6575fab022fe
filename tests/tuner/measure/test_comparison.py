"""Two explanations held against each other."""

from __future__ import annotations

import pytest

from tests.tuner.measure.explained import explain_packets
from tuner.measure.explanation import Explanation, compare

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
