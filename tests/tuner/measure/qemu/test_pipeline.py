"""The pipeline's rules, each by the packets that show it.

A result ready at stage W that is needed at stage R keeps the reader (W - R + 1) // 2 packets
behind the writer: adjacent packets wait that many less one. The stages in the table are those
LLVM's itineraries for hexagonv66 give (tuner/measure/qemu/v66.toml).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuner.measure.qemu.microbenchmark import time_packets


def wait(written: int, read: int, *, between: int = 0) -> int:
    """Packets lost between a result and its reader with ``between`` other packets in between."""
    return max(0, (written - read + 1) // 2 - 1 - between)


ADD, LOAD, MULTIPLY, VECTOR, UPDATED_BASE = 3, 4, 4, 9, 3  # stages at which results are ready

RULES = [
    (
        "load to address",
        ["{ r4 = memw(r10+#0) }", "{ r5 = memw(r4+#0) }"],
        wait(LOAD, 1),
        "address",
    ),
    (
        "compare and conditional transfer in one packet",
        ["{ p0 = cmp.eq(r1,r2) ; if (p0.new) r4 = #1 }"],
        0,
        None,
    ),
    (
        "vector add to multiply",
        ["{ v5.b = vadd(v1.b,v2.b) }", "{ v6.uw = vrmpy(v5.ub,v2.ub) }"],
        wait(VECTOR, 5),
        "vector multiply",
    ),
    (
        "vector add to widening add, which runs in the multiplier",
        ["{ v5.b = vadd(v1.b,v2.b) }", "{ v7:6.h = vadd(v5.ub,v2.ub) }"],
        wait(VECTOR, 5),
        "vector multiply",
    ),
    (
        "vector load to multiply",
        ["{ v5 = vmem(r10+#0) }", "{ v6.uw = vrmpy(v5.ub,v1.ub) }"],
        wait(VECTOR, 5),
        "vector multiply",
    ),
    (
        "vector load into its own packet alone",
        ["{ v5.tmp = vmem(r10+#0) ; v6 = v5 }", "{ v7.uw = vrmpy(v5.ub,v1.ub) }"],
        0,
        None,
    ),
    (
        "vector to unaligned store",
        ["{ v5.b = vadd(v1.b,v2.b) }", "{ vmemu(r10+#0) = v5 }"],
        wait(VECTOR, 5),
        "store data",
    ),
]


@pytest.mark.parametrize(
    ("packets", "stalls", "cause"), [r[1:] for r in RULES], ids=[r[0] for r in RULES]
)
def test_rule(packets: list[str], stalls: int, cause: str | None, tmp_path: Path) -> None:
    timing = time_packets("\n".join(packets), tmp_path)
    assert timing.stalls == stalls
    assert timing.stalls_by_cause == ({} if cause is None else {cause: stalls})
