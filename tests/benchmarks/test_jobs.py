"""The benchmark ``jobs``: each is a pipeline of its sizes, and spellings that differ are told."""

from __future__ import annotations

import pytest

from benchmarks import harness
from benchmarks.jobs import JOBS
from tuner.codegen import space_of
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.default_target import DEFAULT_TARGET


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_a_pipeline_of_its_sizes(name):
    job = JOBS[name]
    kernel = keep_pipeline(job.make())
    problem = find_problem(kernel, dict(job.sizes), DEFAULT_TARGET, "static")
    assert len(space_of("portfolio", find_kernel(kernel), problem).knobs) > 1


@pytest.mark.slow
def test_rows_have_plain_c_beside_the_best(capsys):
    spellings = ["RGB to planes, index", "RGB to planes, mux"]
    assert harness.run("jobs", ["--trials", "4", "--workers", "1", *spellings]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "RGB" in line]
    assert len(rows) == len(spellings)
    for _, plain, _, _, best, _ in rows:
        assert int(best.replace(",", "")) < int(plain.replace(",", ""))
