"""The memory hierarchy's rules, each by the packets that show it.

Costs and distances are those of the parameter file, which names their sources; what they come to
is worked out here. Addresses below r10 are the candidate's stack, HEAP and VTCM are memory that no
other code touches.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuner.measure.qemu.microbenchmark import MODEL, TARGET, nops, time_packets
from tuner.measure.qemu.session import VTCM_BEGIN

COST, RULE = MODEL.parameters, MODEL.hierarchy
HEAP = "{ r4 = ##0x80000000 }\n"
VTCM = f"{{ r4 = ##{VTCM_BEGIN:#x} }}\n"
LINE = RULE.l2_line_bytes
VECTOR = TARGET.vector_bytes
LONG = nops(100)
"""Packets enough to hide the transfer of a few lines behind."""


def walk(steps: int, stride: int, packet: str) -> str:
    """``packet`` in a hardware loop, with r5 going from r4 in steps of ``stride`` bytes."""
    return f"""
        {{ r5 = r4 ; r6 = ##{steps} }}
        {{ loop0(1f, r6) }}
        1: {packet}
        {{ r5 = add(r5, ##{stride}) }}:endloop0
    """


# Scalar loads and stores: L1D


def test_a_scalar_load_of_a_line_only_l2_has_costs_an_l1_miss(tmp_path: Path) -> None:
    body = HEAP + "{ v5 = vmem(r4+#0) }\n{ nop }\n{ r5 = memw(r4+#0) }\n" + LONG
    cost = time_packets(body, tmp_path, "cold")
    assert cost.breakdown["L1 miss"] == COST.l1_miss
    assert cost.breakdown["DDR latency"] == COST.ddr_latency  # of the vector load


@pytest.mark.parametrize(("share", "misses_all"), [(0.5, False), (2.0, True)])
def test_l1_holds_as_much_as_the_target_says(
    tmp_path: Path, share: float, misses_all: bool
) -> None:
    lines = int(TARGET.l1d_bytes * share) // RULE.l1_line_bytes
    loop = walk(lines, RULE.l1_line_bytes, "{ r7 = memw(r5+#0) }")
    assert time_packets(HEAP + loop, tmp_path, "warm").events["l1_misses"] == lines * misses_all


# Vectors: L2, lines, stores on their way


@pytest.mark.parametrize(
    ("packet", "offset", "splits"),
    [("{ v5 = vmemu(r4+#0) }", 1, 1), ("{ v5 = vmem(r4+#0) }", 64, 0)],
)
def test_an_unaligned_vector_costs_a_line_split(
    tmp_path: Path, packet: str, offset: int, splits: int
) -> None:
    body = f"{HEAP}{{ r4 = add(r4, #{offset}) }}\n{{ nop }}\n{packet}\n"
    cost = time_packets(body, tmp_path, "warm")
    assert cost.events["line_splits"] == splits
    assert cost.breakdown.get("line split", 0) == splits * COST.line_split
    assert cost.events["l2_accesses"] == VECTOR // LINE + splits


@pytest.mark.parametrize("between", [5, RULE.store_to_load])
def test_a_vector_load_waits_for_the_store_of_its_line_to_reach_l2(
    tmp_path: Path, between: int
) -> None:
    body = HEAP + "{ vmem(r4+#0) = v1 }\n" + nops(between) + "{ v5 = vmem(r4+#0) }\n"
    cost = time_packets(body, tmp_path, "warm")
    waited = max(0, RULE.store_to_load - (between + 1))
    assert cost.breakdown.get("store to load", 0) == waited
    assert cost.cycles == cost.packets + waited


# DDR


@pytest.mark.parametrize(("between", "waits"), [(15, 1), (16, 2)])
def test_loads_close_to_one_that_waits_for_ddr_wait_with_it(
    tmp_path: Path, between: int, waits: int
) -> None:
    assert COST.ddr_overlap == 16  # the distance is between packets: 15 in between
    body = HEAP + "{ v5 = vmem(r4+#0) }\n" + nops(between) + "{ v6 = vmem(r4+#1) }\n" + LONG
    cost = time_packets(body, tmp_path, "cold")
    assert cost.breakdown["DDR latency"] == waits * COST.ddr_latency


# Prefetches


def row_by_row(rows: int, fetch: str) -> str:
    """Loads ``rows`` of 8 vectors each from r5 on; ``fetch`` is done for each, r8 four ahead."""
    loads = "\n".join(f"{{ v{1 + i % 4} = vmem(r5+#{i}) }}" for i in range(8))
    return f"""
        {{ r5 = r4 ; r9 = ##{rows} }}
        {{ r8 = add(r4, #4096) ; r6 = ##{1024 << 16 | 1} }}
        {{ r7 = #1024 }}
        {{ loop0(1f, r9) }}
        1: {fetch}
        {loads}
        {{ r8 = add(r8, #1024) }}
        {{ r5 = add(r5, #1024) }}:endloop0
    """


def test_prefetching_row_by_row_leaves_only_the_bandwidth(tmp_path: Path) -> None:
    rows = 200
    without = time_packets(HEAP + row_by_row(rows, "{ nop }"), tmp_path, "cold")
    fetched = time_packets(HEAP + row_by_row(rows, "{ l2fetch(r8, r7:6) }"), tmp_path, "cold")
    # Rows are 11 packets apart: at most every second one waits with the one before.
    assert without.breakdown["DDR latency"] >= rows / 2 * COST.ddr_latency
    # A row takes DDR 64 packet times: four ahead is more than its latency. Nobody asks for the
    # first four; from then on DDR is busy all the time.
    moved = fetched.events["ddr_read_bytes"] / COST.ddr_bandwidth
    assert fetched.cycles == pytest.approx(moved, rel=0.01)
    assert fetched.breakdown["DDR latency"] < without.breakdown["DDR latency"] / 20
    # The waits go, the transfers stay: they went on during the waits before.
    assert without.cycles >= without.breakdown["DDR latency"] + without.packets


# VTCM, gather and scatter
