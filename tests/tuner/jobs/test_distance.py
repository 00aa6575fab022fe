"""What is said of a best near the roofline, far from it, and at the limit of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.jobs.distance import FAR, distance_of
from tuner.records.candidate import Measurement
from tuner.records.roofline import Bound, Roofline

ROOFLINE = Roofline(
    (
        Bound("multiply", "products", 256_000, 256.0),
        Bound("load", "bytes", 12_800, 128.0),
        Bound("store", "bytes", 12_800, 128.0),
    )
)
MEMORY = Roofline((*ROOFLINE.bounds, Bound("ddr", "bytes", 64_000_000, 16.0)))


def measured(cycles: int, **others: object) -> Measurement:
    plain = Measurement(cycles, cycles, 0, True, "model", "stand-in", breakdown={"issue": cycles})
    return replace(plain, **others)


def test_near_it_the_limit_is_named() -> None:
    found = distance_of(ROOFLINE, measured(1040))
    assert found.sentence == (
        "1.04 times the roofline: multiplies need at least 1,000 model cycles"
    )


def test_far_from_it_the_space_is_said_not_to_reach_the_hardware() -> None:
    at_the_limit = distance_of(ROOFLINE, measured(int(FAR * 1000)))
    beyond = distance_of(ROOFLINE, measured(int(FAR * 1000) + 1))
    assert "does not reach" not in at_the_limit.sentence
    assert "3.0 times the roofline" in beyond.sentence
    assert "This space does not reach the hardware: its 3,001 packets permute" in beyond.sentence
    assert "package" in beyond.sentence


@pytest.mark.parametrize(
    ("counts", "breakdown", "reason"),
    [
        ({"scalar_accesses": 4000}, {}, "4,000 scalar loads and stores in 5,000 packets"),
        ({"l2_accesses": 900, "vtcm_accesses": 100}, {}, "5.0 times the vectors of its buffers"),
        ({}, {"issue": 3000, "dependency": 1900, "branch": 100}, "40% of the cycles are waits"),
    ],
)
def test_what_the_cycles_go_into_is_told(
    counts: dict[str, int], breakdown: dict[str, int], reason: str
) -> None:
    best = measured(5000, **({"breakdown": breakdown} if breakdown else {}))
    sentence = distance_of(ROOFLINE, best, counts).sentence
    assert reason in sentence
    assert "permute" not in sentence
    assert ("dependency 38%" in sentence) is bool(breakdown)


def test_at_the_limit_of_memory_it_says_what_lies_below() -> None:
    near = distance_of(MEMORY, measured(4_400_000, ddr_bytes=70_000_000))
    assert near.sentence == (
        "memory is the limit: 70.0 MB go through DDR, and at least 64.0 MB must, in 4,000,000 "
        "model cycles; computing alone would take 1,000"
    )
    assert (near.binds, near.least_cycles, near.compute_cycles) == ("ddr", 4_000_000, 1000)


def test_a_device_is_held_against_hvx_alone() -> None:
    found = distance_of(MEMORY, measured(2000, fidelity="hardware"))
    assert (found.times, found.binds) == (2.0, "multiply")
