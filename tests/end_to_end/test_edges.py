"""What is read beyond an input's edges, in each of Halide's ways, at widths of every kind: the
textbook schedule compiles and is right."""

from __future__ import annotations

from random import Random

import pytest

from tests.rig.edged_pipelines import DTYPES, EDGES, FORMS, edged_pipelines
from tuner.codegen import find_generator
from tuner.executor.evaluation import Evaluator
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome

TARGET = find_target("hexagon-v66")
KNOWN = (64, 100, 127, 128)
"""Around a vector, of which each had another fault once."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, pytest.param(None, marks=pytest.mark.nightly)])
def test_textbook_schedules_are_right_at_every_edge(seed):
    """Each edge in each type: in one form that a seed draws, or in all."""
    random = Random(seed or 6)
    drawn = {(edge, dtype): random.choice(FORMS) for edge in EDGES for dtype in DTYPES}
    wrong = []
    with find_generator("halide")(2) as generator, find_measurer("qemu")() as measurer:
        for (edge, dtype, form), data in edged_pipelines().items():
            if seed is not None and form != drawn[edge, dtype]:
                continue
            kernel = find_kernel(keep_pipeline(data))
            sizes = {"x": random.choice((*KNOWN, *random.sample(range(17, 300), 4)))}
            if form == "plane":
                sizes["y"] = random.choice((2, 3, 9))
            problem = kernel.problem(sizes, Contract.STATIC, TARGET)
            candidate = Candidate(problem, kernel.textbook_config(problem))
            trial = Evaluator(generator, measurer).evaluate(candidate, number=0, origin="t").trial
            if trial.outcome is not Outcome.OK:
                wrong.append((edge, dtype, form, sizes, trial.error))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS[::2])
def test_a_mirror_costs_little_more_than_a_repeated_edge(form):
    """Also off vector boundaries, where it was divided lane by lane."""
    sizes = {"x": 513, **({"y": 16} if form == "plane" else {})}
    cycles = {}
    with find_generator("halide")(2) as generator, find_measurer("qemu")() as measurer:
        for edge in EDGES[:3]:
            kernel = find_kernel(keep_pipeline(edged_pipelines()[edge, "uint8", form]))
            problem = kernel.problem(sizes, Contract.STATIC, TARGET)
            candidate = Candidate(problem, kernel.textbook_config(problem))
            trial = Evaluator(generator, measurer).evaluate(candidate, number=0, origin="t").trial
            cycles[edge] = trial.measurement.cycles
    repeated = cycles["repeat_edge"]
    assert max(cycles.values()) < 1.25 * repeated, cycles
