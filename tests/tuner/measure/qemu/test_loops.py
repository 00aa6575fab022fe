"""Loops and spills, found in assembly made by hand."""

from __future__ import annotations

from pathlib import Path

from tests.tuner.measure.explained import explain_packets, packet_with, region_with
from tuner.measure.explanation import Explanation, Region
from tuner.measure.qemu.disassembly import Decoded, Flow
from tuner.measure.qemu.loops import find_loops

NESTED = """
    { r4 = #0 ; r9 = #7 }
    5: { r5 = #1 }
    { loop1(1f,#3) }
    1: { loop0(2f,#10) ; r6 = #6 }
    2: { v5 = v1 }
    { v6 = v1 }:endloop0
    { v7 = v1 ; nop ; nop }:endloop1
    { r4 = add(r4,#1) }
    { p0 = cmp.eq(r4,r9) ; if (!p0.new) jump:t 5b }
    { v8 = v1 }
"""
"""Hardware loops inside of each other, inside of a loop of jumps."""


def loops_of(explanation: Explanation) -> list[Region]:
    return [region for region in explanation.regions if region.kind == "loop"]


def test_nested_loops_are_told_apart(tmp_path: Path) -> None:
    explanation = explain_packets(NESTED, tmp_path)
    inner, middle, outer = (
        region_with(explanation, text) for text in ("v6 = v1", "v7 = v1", "r4 = add(r4,#1)")
    )
    assert len(loops_of(explanation)) == 3
    assert [r.times for r in (inner, middle, outer)] == [7 * 3 * 10, 7 * 3, 7]
    assert (inner.inside, middle.inside, outer.inside) == (middle.begin, outer.begin, None)
    assert [len(r.packets) for r in (inner, middle, outer)] == [2, 2, 4]
    assert region_with(explanation, "v8 = v1").kind == "straight"


def test_a_hardware_loop_may_end_before_its_start(tmp_path: Path) -> None:
    """Compilers lay out blocks as they like."""
    body = """
        { loop0(2f,#10) ; jump 2f }
        1: { v5 = v1 ; nop }
        { v6 = v1 ; nop }:endloop0
        { jump 3f }
        2: { v7 = v1 }
        { jump 1b }
        3: { v8 = v1 }
    """
    explanation = explain_packets(body, tmp_path)
    (loop,) = loops_of(explanation)
    assert [packet.count for packet in loop.packets] == [10, 10, 10, 10]
    assert loop.begin == packet_with(explanation, "v7 = v1").address
    assert region_with(explanation, "v8 = v1").kind == "straight"


def flowing(*targets: int, falls_through: bool = True) -> Decoded:
    return Decoded((), "", 4, 1, {}, {}, 0, Flow(targets=targets, falls_through=falls_through))


def test_a_jump_back_into_code_that_does_not_lead_there_closes_no_loop() -> None:
    """Cold code behind a function jumps back to where it left: layout is no loop."""
    packets = {
        0: flowing(100, falls_through=True),
        4: flowing(),
        8: flowing(falls_through=False),
        100: flowing(4, falls_through=False),
    }
    assert find_loops(packets) == []


def test_long_bodies_do_not_exhaust_the_stack() -> None:
    depth = 3000
    packets = {4 * i: flowing() for i in range(depth)} | {4 * depth: flowing(0)}
    (loop,) = find_loops(packets)
    assert len(loop.body) == depth + 1


# Spills
