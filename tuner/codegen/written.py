"""Code generators that write C, which clang compiles for HVX."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from tuner.codegen import clang
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.toolchain import find_toolchain
from tuner.codegen.wrapping import header
from tuner.identity import digest_of, digest_of_bytes
from tuner.kernels import Kernel, find_kernel
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config

_INPUT = "input.c"
SWITCHES = ("-std=gnu17", "-ffreestanding", "-nostdinc", "-fno-stack-protector", "-fvectorize")


class WrittenGenerator(ServerGenerator):
    """A subclass says what C a config is; its spaces have knobs of :data:`clang.KNOBS`."""

    compiler_knobs = frozenset(clang.DEFAULTS)
    switches: ClassVar[tuple[str, ...]] = SWITCHES
    """For clang, besides those of every generator and of the config."""

    @abstractmethod
    def source(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        """The C: a function of the problem's symbol that is called like Halide's."""

    def header(self, kernel: Kernel, problem: Problem) -> str:
        """Its declaration for C and C++."""
        return header(kernel, problem)

    @abstractmethod
    def digest_of_code(self) -> str:
        """Names all that decides what C is written."""

    def switches_for(self, kernel: Kernel, problem: Problem, config: Config) -> list[str]:
        """For clang, where they depend on what is compiled."""
        return clang.switches(config)

    def identity(self, candidate: Candidate, *, at_once: bool = False) -> str | None:
        problem, config = candidate.problem, candidate.config
        kernel = find_kernel(problem.workload.kernel)
        usual = {k: v for k, v in clang.DEFAULTS.items() if k in config}
        switches = self.switches_for(kernel, problem, Config({**config, **usual}))
        return digest_of([self.source(kernel, problem, config), *switches])

    def fingerprint(self) -> Mapping[str, str]:
        return {
            "generator": self.name,
            "clang": find_toolchain().version,
            f"{self.name} switches": " ".join((*clang.BASE_SWITCHES, *self.switches)),
            f"{self.name} code": self.digest_of_code()[:16],
        }

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem = candidate.problem
        kernel = find_kernel(problem.workload.kernel)
        source = self.source(kernel, problem, candidate.config)
        with self.servers.one() as server:
            files, same = clang.compiled_once(
                candidate.config,
                lambda config: clang.compiled(
                    self.servers,
                    server,
                    problem.target,
                    (_INPUT, source.encode()),
                    [*self.switches, *self.switches_for(kernel, problem, config)],
                    with_assembly=with_assembly,
                    with_remarks=True,
                ),
            )
        # The loops as they are stand for the loop nest of a schedule.
        files |= {
            "header": self.header(kernel, problem).encode(),
            "loopnest": source.encode(),
        }
        return Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files, same)
