"""What results are told against."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.jobs.headline import headline, textbook_is_unscheduled
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Cycles
from tuner.records.trial import JobSpec

SPEC = JobSpec(
    problem=find_kernel("gemm_u8").problem({}, Contract.STATIC, find_target("hexagon-v66"))
)
BEST = Cycles(100)
NAIVE = replace(SPEC, generator="halide-auto")


@pytest.mark.parametrize(
    ("cycles", "name"),
    [
        ({"baseline": 300, "textbook": 200}, "baseline"),
        ({"baseline": None, "textbook": 200}, "textbook"),
    ],
)
def test_the_users_baseline_comes_first_and_what_failed_is_passed_over(cycles, name) -> None:
    told = headline({one: taken and Cycles(taken, 90, 400) for one, taken in cycles.items()}, BEST)
    assert (told.name, told.speedup) == (name, cycles[name] / 100)
    assert (told.cycles, told.lowest_cycles, told.highest_cycles) == (cycles[name], 90, 400)


def test_nothing_is_told_where_baseline_and_textbook_failed() -> None:
    assert headline({"baseline": None, "textbook": None}, BEST) is None


@pytest.mark.parametrize(
    ("objects", "same"),
    [
        ({"default": "a", "textbook": "a", "tpe": "a"}, True),
        ({"default": "a", "tpe": "b"}, True),  # one trial for both
        ({"default": "a", "textbook": "b"}, False),
        ({"default": None, "textbook": None}, False),
        ({"default": "a", "baseline": "a"}, False),  # the user named the textbook config
        ({"textbook": "a"}, False),
    ],
)
def test_a_textbook_that_is_code_without_a_schedule_is_none(objects, same) -> None:
    assert textbook_is_unscheduled(NAIVE, objects) is same
    assert not textbook_is_unscheduled(SPEC, objects)  # its default is a schedule
