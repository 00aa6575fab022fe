"""The work of kernels, and the least cycles it needs of HVX."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.kernels import WorkCounts, find_kernel
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")


def test_the_fullest_unit_bounds_the_cycles() -> None:
    work = WorkCounts(macs=0, lane_ops=1024, read_bytes=128, written_bytes=256, permuted_bytes=1024)
    assert work.hvx_cycles(TARGET) == {
        "multiply": 0,
        "slots": 2,
        "permute": 8,
        "load": 1,
        "store": 2,
    }


@pytest.mark.parametrize(("width", "a_packet"), [("macs", 256), ("macs_16", 64), ("macs_32", 32)])
def test_products_count_by_width(width: str, a_packet: int) -> None:
    """Two vrmpy of 128 bytes share a packet; a vmpy of 64 halfwords takes both multipliers, and two
    of the four units beside them are left."""
    work = replace(WorkCounts(0, 0, 0, 0), **{width: 10 * a_packet})
    bounds = work.hvx_cycles(TARGET)
    assert (bounds["multiply"], bounds["slots"]) == (10, 5)


@pytest.mark.parametrize(("kernel", "vectors", "packets"), [("lut_u8", 256, 8)])
def test_look_ups_need_the_permute_unit_once_for_each_part_of_the_table(
    kernel: str, vectors: int, packets: int
) -> None:
    """A vlut32 reads 32 of 256 bytes, a vlut16 16 of 256 halfwords for two vectors at once."""
    found = find_kernel(kernel)
    bounds = found.work(found.workload().params).hvx_cycles(TARGET)
    assert max(bounds, key=lambda resource: bounds[resource]) == "permute"
    assert bounds["permute"] == vectors * packets
