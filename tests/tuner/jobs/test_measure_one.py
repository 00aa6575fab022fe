"""``measure`` and ``explain`` of one config: the object that is measured is the one handed out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rig.scale_u8 import KERNELS, ScaleU8
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer, text_of
from tuner.identity import digest_of_bytes
from tuner.jobs import one_config
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Candidate, Problem


class FickleGenerator(StandInGenerator):
    """Gives another object when it is to write assembly as well."""

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        artifact = super().compile(candidate)
        if not with_assembly:
            return artifact
        data = artifact.object_bytes + b"otherwise"
        files = {"object": data, "assembly": b"nop"}
        return replace(artifact, digest=digest_of_bytes(data), files=files)


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> Problem:
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    monkeypatch.setattr("tuner.executor.executor.find_generator", lambda name: FickleGenerator)
    monkeypatch.setattr("tuner.measure.find_measurer", lambda name: StandInMeasurer)
    return ScaleU8().problem(None, Contract.STATIC, find_target("hexagon-v66"))


def test_the_artifact_is_the_one_that_was_measured(problem: Problem) -> None:
    config = ScaleU8().default_config(problem)
    trial, artifact = one_config.measure(problem, config)
    assert artifact is not None
    assert artifact.digest == trial.artifact_digest == digest_of_bytes(artifact.object_bytes)
    assert artifact.files["assembly"] == b"nop"
    assert trial.measurement is not None
    assert trial.measurement.cycles == len(text_of(artifact))
