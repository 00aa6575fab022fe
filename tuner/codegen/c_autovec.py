"""Kernels as plain C, vectorized for HVX by clang or not: the loops of their programs
(:mod:`tuner.codegen.programs`), as a function that is called like Halide's
(:mod:`tuner.codegen.wrapping`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from tuner import program
from tuner.codegen import clang, programs, wrapping
from tuner.codegen.programs import fitted
from tuner.codegen.wrapping import PRELUDE, declaration
from tuner.codegen.written import WrittenGenerator
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel
from tuner.program import ProgramError
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue, Space

_VECTORIZE = Knob("c_vectorize", ("on", "off"), "clang's vectorizer")
_INTERLEAVE = Knob("c_interleave", (1, 2), "vectors of one loop side by side")
_KNOBS = (
    _VECTORIZE,
    replace(_INTERLEAVE, when=f"{_VECTORIZE.name} == 'on'"),
    *(knob for knob in clang.KNOBS if knob.name == "llvm_unroll"),
)
"""Others hardly change such code: few points, for searches that try C by the way."""


class CGenerator(WrittenGenerator):
    """Code for kernels that state their program; the space is a handful of points, or some
    tens."""

    name = "c-autovec"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        try:
            return Space(kernel.name, _knobs(fitted(kernel, problem).knobs))
        except ProgramError as error:
            raise UserError(
                f"the generator '{cls.name}' makes no code of {kernel.name}: {error.message}",
                accepted="kernels that state a program",
                next_step="choose another generator, such as halide",
            ) from None

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        """Default: element by element. Textbook: vectorized, with squares or pixels where arrays
        are turned."""
        space = cls.space(kernel, problem)
        textbook: dict[str, KnobValue] = {}
        if loops := [knob.choices for knob in space.knobs if knob.name == programs.LOOPS]:
            is_square = loops[0][-1] in programs.SQUARES
            unroll = "off" if is_square else "on"
            textbook = {programs.LOOPS: loops[0][-1], "llvm_unroll": unroll}
        return {
            "default": space.nearest_config({_VECTORIZE.name: "off"}),
            "textbook": space.nearest_config(textbook),
        }

    def source(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        return fitted(kernel, problem).source(problem, config)

    def header(self, kernel: Kernel, problem: Problem) -> str:
        own = fitted(kernel, problem)
        return declaration(problem, own.buffers, own.scalars)

    def digest_of_code(self) -> str:
        own = sorted(Path(program.__file__).parent.glob("*.py"))
        paths = [PRELUDE, *map(Path, (__file__, programs.__file__, wrapping.__file__)), *own]
        return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))

    def switches_for(self, kernel: Kernel, problem: Problem, config: Config) -> list[str]:
        found = super().switches_for(kernel, problem, config)
        if config.get(_VECTORIZE.name) == "off":
            found = ["-fno-vectorize", "-fno-slp-vectorize", *found]
        else:
            interleave = f"-force-vector-interleave={config.integer(_INTERLEAVE.name)}"
            found = ["-mllvm", "-hexagon-autohvx", "-mllvm", interleave, *found]
        return clang.with_llvm_arguments(found, kernel.llvm_arguments(problem.workload.params))


@cache
def _knobs(own: tuple[Knob, ...]) -> tuple[Knob, ...]:
    return (*own, *_KNOBS)
