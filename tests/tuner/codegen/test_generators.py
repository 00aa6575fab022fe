"""Every code generator keeps the contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from tests.rig.scale_u8 import KERNELS
from tests.rig.unseen_pipelines import unseen_pipeline
from tuner.codegen import clang, find_generator, generator_names
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.portfolio import GENERATOR
from tuner.conformance.generators import GeneratorConformance
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError
from tuner.jobs import one_config
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import EXTRA_KERNELS_VARIABLE, find_kernel
from tuner.packages.files import read_folder
from tuner.packages.kernel import kept_here
from tuner.paths import STATE_DIR_VARIABLE
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome
from tuner.space import Config, KnobValue


class HostileConformance(GeneratorConformance):
    """For those that let a kernel's schedule run in the compiler. ``extra`` are the knobs that they
    add to the kernel's own."""

    extra: ClassVar[dict[str, KnobValue]] = {}

    @pytest.fixture(autouse=True)
    def _test_kernels(
        self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
        monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))

    @pytest.mark.slow
    def test_a_bad_candidate_is_an_outcome_and_the_next_one_compiles(self) -> None:
        """The ways to be bad are those of ``test_halide_generator.py``."""
        problem = find_kernel("hostile_u8").problem({}, Contract.STATIC, find_target("hexagon-v66"))
        good = Config({**self.extra, "vectors": 1, "unroll_rows": 1, "behave": "well"})
        bad = Config({**good, "behave": "abort"})
        candidate = Candidate(problem, good, self.name)
        made: type[ServerGenerator] = find_generator(self.name)  # type: ignore[assignment]
        with made(1, time_limit_s=PATIENCE_S) as generator:
            with pytest.raises(CandidateError) as caught:
                generator.compile(replace(candidate, config=bad))
            assert caught.value.outcome is Outcome.COMPILER_CRASH
            assert generator.compile(candidate).object_bytes


class TestHalide(HostileConformance):
    name = "halide"


class TestHalideClang(HostileConformance):
    name = "halide-clang"
    extra: ClassVar[dict[str, KnobValue]] = clang.DEFAULTS


class TestC(GeneratorConformance):
    name = "c-autovec"


class TestProgramInC(GeneratorConformance):
    """Of an uploaded pipeline."""

    name = "c-autovec"
    params: ClassVar[dict[str, int]] = {"x": 40, "y": 6}
    contracts = (Contract.STATIC,)

    @pytest.fixture(autouse=True)
    def _kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path))
        name = keep_pipeline(unseen_pipeline("sharpen"))
        monkeypatch.setattr(type(self), "kernel", name)


class TestHvx(GeneratorConformance):
    name = "hvx"


class TestIntrinsics(GeneratorConformance):
    name = "intrinsics"
    kernel = "conv2d_u8"
    params: ClassVar[dict[str, int]] = {"height": 8, "width": 8, "channels_in": 16}
    contracts = (Contract.STATIC,)


class TestHalideAuto(GeneratorConformance):
    name = "halide-auto"

    @pytest.mark.slow
    def test_every_start_is_right_code_with_its_symbol_and_header(self, generator):
        """Autoschedulers are wrong at times: no schedule is right."""
        problem = self.problem()
        trial, _ = one_config.measure(
            problem, Config({"autoscheduler": "none"}), generator=self.name
        )
        assert trial.outcome is Outcome.OK


class TestPackage(GeneratorConformance):
    name = "package"

    @pytest.fixture(autouse=True)
    def _kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path))
        package = read_folder(request.config.rootpath / "examples/packages/stencil3x3")
        monkeypatch.setattr(type(self), "kernel", kept_here(package).name)


class TestPortfolio(HostileConformance):
    name = "portfolio"
    extra: ClassVar[dict[str, KnobValue]] = {GENERATOR: "halide-clang", **clang.DEFAULTS}


def test_no_generator_goes_untested() -> None:
    tested = {
        one.name
        for one in globals().values()
        if isinstance(one, type) and issubclass(one, GeneratorConformance) and hasattr(one, "name")
    }
    assert tested == set(generator_names())
