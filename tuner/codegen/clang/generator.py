"""Halide's LLVM IR of a schedule, compiled by clang: a second opinion on the same loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tuner.codegen.clang import command
from tuner.codegen.halide.generator import HalideGenerator
from tuner.codegen.toolchain import find_toolchain
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Space

_KINDS = ("header", "schedule", "bitcode")
_INPUT = "input.bc"


class HalideClangGenerator(HalideGenerator):
    """Schedules as for Halide; instructions chosen, unrolled and packed by a newer LLVM.

    Its space is the kernel's with the knobs of :data:`tuner.codegen.clang.command.KNOBS` behind.
    """

    name = "halide-clang"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        space = kernel.space(problem)
        return replace(space, knobs=(*space.knobs, *command.KNOBS))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        starts = super().starts(kernel, problem)
        return {name: Config({**config, **command.DEFAULTS}) for name, config in starts.items()}

    def fingerprint(self) -> Mapping[str, str]:
        return {
            **super().fingerprint(),
            "generator": self.name,
            "clang": find_toolchain().version,
            "clang switches": " ".join(command.BASE_SWITCHES),
        }

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem, config = candidate.problem, candidate.config
        kernel = find_kernel(problem.workload.kernel)
        needed = kernel.llvm_arguments(problem.workload.params)
        options = command.with_llvm_arguments(command.switches(config), needed)
        schedule = Config({k: v for k, v in config.items() if k not in command.DEFAULTS})
        with self.servers.one() as server:
            files = self._emitted(server, problem, schedule, _KINDS)
            files |= command.compiled(
                self.servers,
                server,
                problem.target,
                (_INPUT, files.pop("bitcode")),
                options,
                with_assembly=with_assembly,
            )
        return Artifact(digest_of_bytes(files[command.OBJECT]), problem.symbol, files)
