"""The conformance suite of code generators: what :class:`tuner.codegen.CodeGenerator` promises."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tuner.codegen import CodeGenerator, find_generator, generator_names
from tuner.codegen.halide.servers import ServerGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, OutOfTimeError, ToolchainError
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem
from tuner.space import Config

_NEIGHBOURS = 8


class GeneratorConformance:
    """Name the generator as registered: ``name = "halide-near"``.

    ``kernel`` is one that it makes code of, with parameters ``params`` small enough to be run.
    """

    name: ClassVar[str]
    kernel: ClassVar[str] = "box_blur_u8"
    params: ClassVar[dict[str, int]] = {"width": 256, "height": 8}
    contracts: ClassVar[tuple[Contract, ...]] = (Contract.STATIC, Contract.NONE)
    """The strictest and the weakest that it makes code of that kernel under."""

    def opened(self, workers: int = 1) -> CodeGenerator:
        """A new instance; those that compile in compile servers do not give up early."""
        made = find_generator(self.name)
        if issubclass(made, ServerGenerator):
            return made(workers, time_limit_s=PATIENCE_S)
        return made(workers)

    @pytest.fixture
    def generator(self) -> Iterator[CodeGenerator]:
        with self.opened() as made:
            yield made

    def problem(self, contract: Contract = Contract.STATIC) -> Problem:
        return find_kernel(self.kernel).problem(self.params, contract, find_target("hexagon-v66"))

    def candidate(self, contract: Contract = Contract.STATIC, origin: str = "default") -> Candidate:
        problem = self.problem(contract)
        config = find_generator(self.name).starts(find_kernel(self.kernel), problem)[origin]
        return Candidate(problem, config, self.name)

    def candidates(self) -> tuple[Candidate, Candidate]:
        """Two that give different objects."""
        return self.candidate(), self.candidate(self.contracts[-1], "textbook")

    def test_it_goes_by_its_registered_name(self) -> None:
        assert self.name in generator_names()
        assert find_generator(self.name).name == self.name

    def test_a_search_can_begin(self) -> None:
        """The starts are points of the space, default and textbook first."""
        kernel, problem = find_kernel(self.kernel), self.problem()
        made = find_generator(self.name)
        space, starts = made.space(kernel, problem), made.starts(kernel, problem)
        assert list(starts)[:2] == ["default", "textbook"]
        assert [space.config(config.as_dict()) for config in starts.values()] == [*starts.values()]
        assert made.space(kernel, problem).digest == space.digest

    def test_its_fingerprint_is_json_and_no_others(self) -> None:
        """It is part of every cache key: two generators with one would share their objects."""
        with self.opened() as generator:
            fingerprint = dict(generator.fingerprint())
            assert fingerprint == dict(generator.fingerprint())
        assert fingerprint["generator"] == self.name
        assert all(isinstance(value, str) and value for value in fingerprint.values())
        assert json.loads(json.dumps(fingerprint)) == fingerprint
        for other in set(generator_names()) - {self.name}:
            try:
                with find_generator(other)() as another:
                    assert dict(another.fingerprint()) != fingerprint
            except ToolchainError:  # of a package that is broken, or needs what is not installed
                continue

    def test_it_closes_twice_and_without_having_compiled(self) -> None:
        generator = self.opened()
        generator.close()
        generator.close()

    @pytest.mark.slow
    def test_every_start_is_right_code_with_its_symbol_and_header(
        self, generator: CodeGenerator
    ) -> None:
        with QemuMeasurer() as measurer:
            for contract in self.contracts:
                problem = self.problem(contract)
                starts = generator.starts(find_kernel(self.kernel), problem)
                for config in starts.values():
                    artifact = generator.compile(Candidate(problem, config, self.name))
                    elf = ELFFile(io.BytesIO(artifact.object_bytes))
                    table = elf.get_section_by_name(".symtab")
                    assert isinstance(table, SymbolTableSection)
                    assert artifact.symbol in {symbol.name for symbol in table.iter_symbols()}
                    assert artifact.symbol in artifact.files["header"].decode()
                    assert measurer.measure(problem, artifact).measurement.verified

    @pytest.mark.slow
    def test_the_same_candidate_gives_the_same_bytes_whatever_came_before(
        self, generator: CodeGenerator
    ) -> None:
        one, other = self.candidates()
        first = generator.compile(one).digest
        assert generator.compile(other).digest != first
        assert generator.compile(one).digest == first
        assert generator.compile(one, with_assembly=True).files["assembly"]
        with self.opened() as fresh:
            assert fresh.compile(one).digest == first

    @pytest.mark.slow
    def test_what_is_told_to_be_one_object_is_one(self, generator: CodeGenerator) -> None:
        """By :meth:`CodeGenerator.identity` before, or by ``Artifact.alike`` afterwards: a search
        leaves out what it has had."""
        problem = self.problem()
        kernel = find_kernel(self.kernel)
        space = generator.space(kernel, problem)
        textbook = generator.starts(kernel, problem)["textbook"]
        near = {
            space.nearest_config({**textbook, knob.name: choice})
            for knob in space.walk(textbook)
            for choice in knob.choices
        }
        made: dict[tuple[str | None, str], str] = {}
        for config in sorted(near, key=lambda one: one.json)[:_NEIGHBOURS]:
            candidate = Candidate(problem, config, self.name)
            identity, own = generator.identity(candidate), generator.compiler_knobs
            switches = Config({name: value for name, value in config.items() if name in own}).json
            with contextlib.suppress(CandidateError):
                artifact = generator.compile(candidate)
                if identity is not None:
                    assert made.setdefault((identity, switches), artifact.digest) == artifact.digest
                for name, choices in artifact.alike.items():
                    for choice in choices & {*space.knob(name).choices} if name in config else ():
                        other = Candidate(problem, Config({**config, name: choice}), self.name)
                        assert generator.compile(other).digest == artifact.digest

    @pytest.mark.slow
    def test_several_threads_compile_at_once(self) -> None:
        """More of them than workers: further callers wait."""
        candidates = [*self.candidates()] * 2
        with self.opened(2) as generator, ThreadPoolExecutor(len(candidates)) as threads:
            made = [one.digest for one in threads.map(generator.compile, candidates)]
        assert made[:2] == made[2:]
        assert made[0] != made[1]

    @pytest.mark.slow
    def test_once_abandoned_it_compiles_nothing_or_what_it_always_does(self) -> None:
        candidate = self.candidate()
        with self.opened() as generator:
            first = generator.compile(candidate).digest
            generator.abandon()
            generator.abandon()
            with contextlib.suppress(OutOfTimeError):
                assert generator.compile(candidate).digest == first
