"""Code of packages: kernels that bring their own way to an object.

The generator ``package`` is theirs alone, and they have no other: what it makes of a config, the
kernel itself says (:class:`PackagedKernel`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from tuner.codegen import clang, wrapping
from tuner.codegen.generator import Alternatives
from tuner.codegen.halide.generator import HalideGenerator
from tuner.codegen.halide.servers import CompileServer, CompileServers, ServerGenerator
from tuner.codegen.portfolio import Portfolio
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Space

SCHEDULE, HAND = "schedule", "hand"
"""The knob of a Generator's package by which its own schedule or a generator of code is chosen."""
_CODE = (Path(__file__), Path(wrapping.__file__), wrapping.PRELUDE)


class PackagedKernel(Kernel):
    """A kernel that makes its own code."""

    generator = "package"

    @abstractmethod
    def files_of(
        self,
        problem: Problem,
        config: Config,
        servers: CompileServers,
        server: CompileServer,
        *,
        with_assembly: bool,
    ) -> Mapping[str, bytes]:
        """The files of an artifact, ``object`` and ``header`` among them: a function of the
        problem's symbol that is called like Halide's.

        Compilers run in ``server``, one of ``servers``. Raises as :meth:`CodeGenerator.compile`.
        """

    @abstractmethod
    def baseline_config(self, problem: Problem) -> Config | None:
        """The config that a search must beat: its author's code so far; ``None`` without one."""

    def blame(self, problem: Problem, config: Config) -> str:
        """As :meth:`CodeGenerator.blame`."""
        return ""

    def other_starts(self, problem: Problem) -> dict[str, Config]:
        """Configs that a search begins with besides default and baseline, by origin."""
        return {}

    def textbook_config(self, problem: Problem) -> Config:
        return self.baseline_config(problem) or self.default_config(problem)


class PackageGenerator(ServerGenerator):
    """Has packages make their objects."""

    name = "package"
    alternatives = Alternatives(SCHEDULE, HalideGenerator.name)

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        return _packaged(kernel).space(problem)

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        """Default, then the baseline in the textbook's place and under its own name."""
        found = super().starts(_packaged(kernel), problem)
        baseline = _packaged(kernel).baseline_config(problem)
        named = {} if baseline is None else {"baseline": baseline}
        return {**found, **named, **_packaged(kernel).other_starts(problem)}

    def fingerprint(self) -> Mapping[str, str]:
        digest = digest_of_bytes(b"\0".join(path.read_bytes() for path in _CODE))
        return {
            **Portfolio(servers=self.servers).fingerprint(),
            "generator": self.name,
            "package switches": " ".join(clang.BASE_SWITCHES),
            "package code": digest[:16],
        }

    def blame(self, candidate: Candidate) -> str:
        problem = candidate.problem
        return _packaged(find_kernel(problem.workload.kernel)).blame(problem, candidate.config)

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem = candidate.problem
        kernel = _packaged(find_kernel(problem.workload.kernel))
        with self.servers.one() as server:
            files = kernel.files_of(
                problem, candidate.config, self.servers, server, with_assembly=with_assembly
            )
        return Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files)


def _packaged(kernel: Kernel) -> PackagedKernel:
    if isinstance(kernel, PackagedKernel):
        return kernel
    raise UserError(
        f"{kernel.name} is not a package, which the generator '{PackageGenerator.name}' needs",
        accepted="./DIR with a kernel.toml, or package:NAME",
        next_step="leave the generator out",
    )
