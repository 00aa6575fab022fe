"""Pipelines whose buffers L2 does not hold: prefetches are right, and pay."""

from __future__ import annotations

from random import Random

import pytest

from tests.rig.unseen_pipelines import unseen_pipeline
from tuner.codegen import find_generator
from tuner.executor.evaluation import Evaluator
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome
from tuner.space import Config

TARGET = find_target("hexagon-v66")
DRAWN = 3
LEAST_GAIN = 2.0


@pytest.mark.slow
def test_rows_that_are_asked_for_in_time_are_not_waited_for():
    kernel = find_kernel(keep_pipeline(unseen_pipeline("sharpen")))
    problem = kernel.problem({"x": 1024, "y": 640}, Contract.STATIC, TARGET)
    space, textbook = kernel.space(problem), kernel.textbook_config(problem)
    assert textbook["prefetch"] == 2
    random, drawn = Random(7), []
    while len(drawn) < DRAWN:
        config = space.sample(random)
        if config.get("prefetch", 0) != 0:
            drawn.append(config)
    late = Config({**textbook.as_dict(), "prefetch": 0})
    with find_generator("halide")(2) as generator, find_measurer("qemu")() as measurer:
        evaluator = Evaluator(generator, measurer)
        ahead, without, *others = (
            evaluator.evaluate(Candidate(problem, config), number=number, origin="test").trial
            for number, config in enumerate([textbook, late, *drawn])
        )
        code = generator.compile(Candidate(problem, textbook), with_assembly=True)
    assert b"l2fetch" in code.files["assembly"]
    assert b"prefetch(image_im.value()" in code.files["schedule"]
    assert [ahead.error, without.error] == [None, None]
    assert without.measurement.cycles > LEAST_GAIN * ahead.measurement.cycles
    right = [trial for trial in others if trial.outcome is Outcome.OK]
    assert len(right) >= DRAWN - 1, [trial.error for trial in others]
