"""The work of kernels, and the least cycles it needs."""

from __future__ import annotations

import pytest

from tuner.kernels import WorkCounts, find_kernel
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")


def test_the_fullest_unit_bounds_the_cycles() -> None:
    work = WorkCounts(macs=0, lane_ops=1024, read_bytes=128, written_bytes=128, permuted_bytes=1024)
    assert work.bound_cycles(TARGET) == {
        "multiply": 0,
        "alu": 2,
        "slots": 2.5,
        "permute": 8,
        "load": 1,
        "store": 1,
    }
    assert work.peak_cycles(TARGET) == 8


@pytest.mark.parametrize(("kernel", "vectors", "packets"), [("lut_u8", 256, 8)])
def test_look_ups_need_the_permute_unit_once_for_each_part_of_the_table(
    kernel: str, vectors: int, packets: int
) -> None:
    """A vlut32 reads 32 of 256 bytes, a vlut16 16 of 256 halfwords for two vectors at once."""
    found = find_kernel(kernel)
    bounds = found.work(found.workload().params).bound_cycles(TARGET)
    assert max(bounds, key=lambda resource: bounds[resource]) == "permute"
    assert bounds["permute"] == vectors * packets
