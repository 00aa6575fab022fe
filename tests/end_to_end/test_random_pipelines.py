"""Derived schedules of pipelines drawn at random against the reference: each textbook schedule, and
random points of the derived space, compiled and run in the simulator.

``python -m tests.end_to_end.test_random_pipelines FIRST COUNT`` prints what becomes of that many
seeds.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.rig.random_pipelines import random_pipeline
from tuner.codegen import find_generator
from tuner.errors import UserError
from tuner.executor.evaluation import Evaluator
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome
from tuner.space import Config, Space

TARGET = find_target("hexagon-v66")
DRAWN = 10
MOST_WRONG = 0.005
"""Of all configs. Not of six pipelines: there none is."""


@dataclass
class Figures:
    """What became of the candidates."""

    pipelines: int = 0
    textbooks: Counter[Outcome] = field(default_factory=Counter)
    drawn: Counter[Outcome] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """Candidates with wrong outputs."""
        return self.textbooks[Outcome.WRONG_OUTPUT] + self.drawn[Outcome.WRONG_OUTPUT]

    @property
    def configs(self) -> int:
        """All candidates."""
        return self.textbooks.total() + self.drawn.total()

    def __str__(self) -> str:
        return (
            f"{self.pipelines} pipelines, {len(self.refused)} refused, {self.configs} configs, "
            f"{self.wrong} wrong; textbook {_counts(self.textbooks)}; drawn {_counts(self.drawn)}"
        )


def _counts(outcomes: Counter[Outcome]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())


def checked(seeds: Iterable[int]) -> Figures:
    """The figures of the pipelines of ``seeds``."""
    figures = Figures()
    with find_generator("halide")(2) as generator, find_measurer("qemu")() as measurer:
        for seed in seeds:
            data, sizes = random_pipeline(seed)
            figures.pipelines += 1
            try:
                kernel = find_kernel(keep_pipeline(data))
                problem = kernel.problem(sizes, Contract.STATIC, TARGET)
                configs = [kernel.textbook_config(problem)]
            except UserError as error:
                figures.refused.append(f"seed {seed}: {error}")
                continue
            configs += scheduled(kernel.space(problem), Random(seed))
            candidates = [Candidate(problem, config) for config in configs]
            evaluator = Evaluator(generator, measurer)
            with ThreadPoolExecutor(2) as pool:
                trials = pool.map(
                    lambda candidate, run=evaluator: (
                        run.evaluate(candidate, number=0, origin="drawn").trial
                    ),
                    candidates,
                )
                for number, trial in enumerate(trials):
                    (figures.drawn if number else figures.textbooks)[trial.outcome] += 1
                    if trial.outcome is not Outcome.OK:
                        config = json.dumps(trial.config.as_dict())
                        what = "drawn" if number else "textbook"
                        figures.faults.append(f"seed {seed}: {what}: {trial.error} of {config}")
    return figures


def report(*lines: str) -> None:
    """Writes what was found to standard output, for those who read a job's log."""
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


def scheduled(space: Space, random: Random) -> list[Config]:
    """Configs drawn from ``space``, without those that have no schedule."""
    found: list[Config] = []
    while len(found) < DRAWN and len(space.knob("lanes").choices) > 1:
        config = space.sample(random)
        if config["lanes"] != 1:
            found.append(config)
    return found


@pytest.mark.slow
def test_no_schedule_of_four_random_pipelines_is_wrong():
    figures = checked(range(4))
    report(str(figures))
    assert not figures.refused
    assert not figures.wrong, figures.faults
    assert set(figures.textbooks) == {Outcome.OK}, figures.faults


@pytest.mark.nightly
def test_almost_no_schedule_of_two_hundred_random_pipelines_is_wrong():
    figures = checked(range(200))
    report(str(figures))
    assert not figures.refused
    assert figures.wrong <= MOST_WRONG * figures.configs, figures.faults
    assert not figures.textbooks[Outcome.WRONG_OUTPUT], figures.faults


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    for one in range(first, first + count):
        made = checked([one])
        report(f"seed {one}", str(random_pipeline(one)[1]), str(made), *made.refused, *made.faults)
