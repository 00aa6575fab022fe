"""What every code generator that compiles here must do; a test module inherits the class."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest
from elftools.elf.elffile import ELFFile

from tests.rig.scale_u8 import KERNELS
from tuner.codegen import CodeGenerator, find_generator
from tuner.codegen.halide.servers import ServerGenerator
from tuner.errors import CandidateError
from tuner.kernels import EXTRA_KERNELS_VARIABLE, find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem
from tuner.records.outcome import Outcome
from tuner.search.samplers import find_sampler
from tuner.space import Config, KnobValue


class GeneratorConformance:
    """``name`` is the generator's; ``extra`` the knobs it adds to a kernel's own."""

    name: ClassVar[str]
    kernel: ClassVar[str] = "box_blur_u8"
    extra: ClassVar[dict[str, KnobValue]] = {}

    @pytest.fixture(autouse=True)
    def _test_kernels(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
        monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
        monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))

    @pytest.fixture
    def generator(self) -> Iterator[CodeGenerator]:
        with self.patient() as made:
            yield made

    def patient(self) -> CodeGenerator:
        """A generator that does not give up where the machine is busy."""
        made: type[ServerGenerator] = find_generator(self.name)  # type: ignore[assignment]
        return made(1, time_limit_s=120.0)

    def problem(self, contract: Contract = Contract.STATIC) -> Problem:
        kernel = find_kernel(self.kernel)
        return kernel.problem({"width": 256, "height": 8}, contract, find_target("hexagon-v66"))

    def candidate(self, contract: Contract = Contract.STATIC, origin: str = "default") -> Candidate:
        problem = self.problem(contract)
        config = find_generator(self.name).starts(find_kernel(self.kernel), problem)[origin]
        return Candidate(problem, config, self.name)

    def test_a_search_can_begin(self) -> None:
        """The starts are points of the space, default and textbook first."""
        kernel, problem = find_kernel(self.kernel), self.problem()
        made = find_generator(self.name)
        space, starts = made.space(kernel, problem), made.starts(kernel, problem)
        assert list(starts)[:2] == ["default", "textbook"]
        assert [space.config(config.as_dict()) for config in starts.values()] == [*starts.values()]
        assert find_sampler("surrogate").make(space, seed=0)

    @pytest.mark.slow
    def test_every_start_is_right_code_with_its_symbol_and_header(self, generator) -> None:
        with QemuMeasurer() as measurer:
            for contract in (Contract.STATIC, Contract.NONE):
                problem = self.problem(contract)
                starts = generator.starts(find_kernel(self.kernel), problem)
                for config in starts.values():
                    artifact = generator.compile(Candidate(problem, config, self.name))
                    elf = ELFFile(io.BytesIO(artifact.object_bytes))
                    table = elf.get_section_by_name(".symtab")
                    assert artifact.symbol in {symbol.name for symbol in table.iter_symbols()}
                    assert artifact.symbol in artifact.files["header"].decode()
                    assert measurer.measure(problem, artifact).measurement.verified

    @pytest.mark.slow
    def test_the_same_candidate_gives_the_same_bytes_whatever_came_before(self, generator) -> None:
        one, other = self.candidate(), self.candidate(Contract.NONE)
        first = generator.compile(one).digest
        assert generator.compile(other).digest != first
        assert generator.compile(one).digest == first
        assert generator.compile(one, with_assembly=True).files["assembly"]
        with self.patient() as fresh:
            assert fresh.compile(one).digest == first
            assert dict(fresh.fingerprint()) == dict(generator.fingerprint())

    @pytest.mark.slow
    def test_what_it_is_made_of_is_part_of_the_key(self, generator) -> None:
        assert generator.fingerprint()["generator"] == self.name


class HostileConformance(GeneratorConformance):
    """For those that let a kernel's schedule run in the compiler."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("behave", "outcome"),
        [
            ("abort", Outcome.COMPILER_CRASH),
            ("memory", Outcome.COMPILE_ERROR),
            ("hang", Outcome.TIMEOUT),
        ],
    )
    def test_a_bad_candidate_is_an_outcome_and_the_next_one_compiles(self, behave, outcome) -> None:
        problem = find_kernel("hostile_u8").problem({}, Contract.STATIC, find_target("hexagon-v66"))
        good = Config({**self.extra, "vectors": 1, "unroll_rows": 1, "behave": "well"})
        bad = Config({**good, "behave": behave})
        candidate = Candidate(problem, good, self.name)
        made: type[ServerGenerator] = find_generator(self.name)  # type: ignore[assignment]
        with made(1, time_limit_s=3.0 if behave == "hang" else 120.0) as generator:
            with pytest.raises(CandidateError) as caught:
                generator.compile(replace(candidate, config=bad))
            assert caught.value.outcome is outcome
        with self.patient() as generator:
            assert generator.compile(candidate).object_bytes
