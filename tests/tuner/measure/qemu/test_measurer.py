"""The embedded simulator as a measurer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tuner.conformance.candidates import scale_artifact
from tuner.conformance.measurers import MeasurerConformance
from tuner.conformance.patience import PATIENCE_S
from tuner.measure import Measurer
from tuner.measure.qemu.measurer import NEEDED_ADDRESSES, QemuMeasurer
from tuner.records.candidate import Problem
from tuner.records.outcome import Outcome


class TestQemuMeasurer(MeasurerConformance):
    @pytest.fixture
    def measurer(self) -> Iterator[Measurer]:
        with QemuMeasurer(timeout_s=PATIENCE_S) as measurer:
            yield measurer

    @pytest.fixture
    def hasty_measurer(self) -> Iterator[Measurer]:
        with QemuMeasurer(timeout_s=2) as measurer:
            yield measurer

    def test_the_cutoff_is_exact_to_the_cycle(self, measurer: Measurer, problem: Problem) -> None:
        artifact = scale_artifact(problem)
        cycles = measurer.measure(problem, artifact).measurement.cycles
        at_limit = measurer.measure(problem, artifact, budget_cycles=cycles)
        assert at_limit.measurement.cycles == cycles
        outcome, _ = self.outcome(measurer, problem, artifact, budget_cycles=cycles - 1)
        assert outcome is Outcome.CUTOFF

    def test_the_environment_does_not_change_the_cycles(
        self, measurer: Measurer, problem: Problem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        artifact = scale_artifact(problem)
        before = measurer.measure(problem, artifact).measurement.cycles
        monkeypatch.setenv("QEMU_STACK_SIZE", "16384")
        monkeypatch.setenv("LD_PRELOAD", "/nonexistent.so")
        monkeypatch.setenv("LONG", "x" * 10_000)
        assert measurer.measure(problem, artifact).measurement.cycles == before


UNDER_A_LIMIT = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.target import find_target
try:
    QemuMeasurer().require(find_target("hexagon-v66"))
except Exception as error:
    sys.exit(f"{type(error).__name__} {error}")
"""


@pytest.mark.parametrize("limit", [1_500_000 << 10, NEEDED_ADDRESSES])
def test_a_limit_of_memory_is_named_as_what_is_in_the_way(limit: int) -> None:
    command = [sys.executable, "-c", UNDER_A_LIMIT, str(limit)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    if limit >= NEEDED_ADDRESSES:
        assert said == ""
    else:
        assert "ToolchainError" in said
        assert f"{limit:,} bytes" in said
        assert "ulimit" in said
