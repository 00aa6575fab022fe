"""The verifier catches near misses of right packages, all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tuner.packages.broken import edit, opened
from tests.tuner.packages.mutants import PACKAGES
from tuner.codegen.packaged import PackageGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.packages.files import keep
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome

CAUGHT = {Outcome.WRONG_OUTPUT, Outcome.RUN_ERROR}
"""Outcomes of a mutant: it was built, run, and found wrong."""


def outcome_of(folder: Path, name: str, generator: PackageGenerator, measurer: QemuMeasurer) -> str:
    """The outcome of the package in ``folder``, with the config and contract of ``name``."""
    kernel, mutated = opened(folder), PACKAGES[name]
    keep(kernel.package)
    problem = kernel.problem(None, Contract(mutated.contract), find_target("hexagon-v66"))
    config = kernel.space(problem).config(dict(mutated.config))
    try:
        artifact = generator.compile(Candidate(problem, config, generator.name))
        measurer.measure(problem, artifact)
    except CandidateError as error:
        return error.outcome
    return Outcome.OK


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_every_near_miss_is_caught(name: str, tmp_path: Path) -> None:
    mutated = PACKAGES[name]
    with PackageGenerator(1, time_limit_s=PATIENCE_S) as generator, QemuMeasurer() as measurer:
        assert outcome_of(mutated.folder, name, generator, measurer) == Outcome.OK
        survived = []
        for number, (what, (old, new)) in enumerate(mutated.edits.items()):
            folder = tmp_path / str(number)
            shutil.copytree(mutated.folder, folder)
            edit(folder, old, new, mutated.source)
            outcome = outcome_of(folder, name, generator, measurer)
            if outcome not in CAUGHT:
                survived.append((what, outcome))
    assert survived == []
