"""What results are told against."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.jobs.headline import headline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.trial import JobSpec

SPEC = JobSpec(
    problem=find_kernel("add_u8").problem({}, Contract.STATIC, find_target("hexagon-v66"))
)
NAIVE = replace(SPEC, generator="halide-auto")


@pytest.mark.parametrize(
    ("cycles", "name"),
    [
        ({"baseline": 300, "textbook": 200, "default": 900}, "baseline"),
        ({"baseline": None, "textbook": 200, "default": 900}, "textbook"),
        ({"textbook": 200, "default": 200}, "textbook"),
    ],
)
def test_the_users_baseline_comes_first_and_what_failed_is_passed_over(cycles, name) -> None:
    told = headline(SPEC, cycles, 100)
    assert (told.name, told.speedup) == (name, cycles[name] / 100)


@pytest.mark.parametrize("spec", [SPEC, NAIVE])
def test_nothing_is_told_where_baseline_and_textbook_failed(spec: JobSpec) -> None:
    assert headline(spec, {"baseline": None, "textbook": None, "default": 900}, 100) is None


def test_nothing_is_told_against_code_without_a_schedule() -> None:
    assert headline(NAIVE, {"textbook": 9200, "default": 9200}, 100) is None
    assert headline(NAIVE, {"textbook": 200, "default": 9200}, 100).name == "textbook"
