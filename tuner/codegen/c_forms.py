"""Kernels as plain C, vectorized for HVX by clang or not.

A kernel's loops are in ``c_forms/KERNEL.c`` beside the kernel, further forms in ``KERNEL.NAME.c``;
of one without such forms they are those of its program (:mod:`tuner.codegen.programs`). They are
wrapped as a function that is called like Halide's (:mod:`tuner.codegen.wrapping`). Parameters of
the kernel that are not extents are constants by their own names.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from tuner import program
from tuner.codegen import clang, programs, wrapping
from tuner.codegen.programs import fitted
from tuner.codegen.wrapping import PRELUDE, declaration, wrapped
from tuner.codegen.written import WrittenGenerator
from tuner.errors import HvxtuneError, UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, kernel_class, kernel_names
from tuner.kernels.sources import content_of
from tuner.program import ProgramError
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue, Space

_VECTORIZE = Knob("c_vectorize", ("on", "off"), "clang's vectorizer")
_INTERLEAVE = Knob("c_interleave", (1, 2), "vectors of one loop side by side")
_PLAINEST: dict[str, KnobValue] = {_VECTORIZE.name: "off"}
_CLANG_KNOBS = tuple(k for k in clang.KNOBS if k.name in ("llvm_unroll", "llvm_combine"))
"""The others hardly change such code: eight points a form, for searches that try C by the way."""
_PROGRAM_KNOBS = (
    _VECTORIZE,
    replace(_INTERLEAVE, when=f"{_VECTORIZE.name} == 'on'"),
    *(knob for knob in _CLANG_KNOBS if knob.name == "llvm_unroll"),
)


class CGenerator(WrittenGenerator):
    """Code for kernels that have a C form (:func:`c_forms`) or state their program; the space is a
    handful of points, or some tens."""

    name = "c-autovec"

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        forms = c_forms(kernel)
        if forms:
            return Space(kernel.name, _knobs(tuple(forms)))
        try:
            return Space(kernel.name, _program_knobs(fitted(kernel, problem).knobs))
        except ProgramError as error:
            raise UserError(
                f"the generator '{cls.name}' makes no code of {kernel.name}: {error.message}",
                accepted=f"kernels that state a program; {', '.join(_all_forms())}",
                next_step="choose another generator, such as halide",
            ) from None

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        """Default: the plain form with clang's defaults, a program element by element. Textbook:
        the last form, or a program vectorized, with squares or pixels where it turns arrays."""
        space = cls.space(kernel, problem)
        textbook: dict[str, KnobValue] = {}
        if forms := list(c_forms(kernel)):
            textbook = {"c_form": forms[-1]}
        elif loops := [knob.choices for knob in space.knobs if knob.name == programs.LOOPS]:
            is_square = loops[0][-1] in programs.SQUARES
            unroll = "off" if is_square else "on"
            textbook = {programs.LOOPS: loops[0][-1], "llvm_unroll": unroll}
        return {
            "default": space.nearest_config(_PLAINEST),
            "textbook": space.nearest_config(textbook),
        }

    def source(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        if forms := c_forms(kernel):
            loops = content_of(forms[config.text("c_form")]).decode()
            return translation_unit(kernel, problem, loops)
        return fitted(kernel, problem).source(problem, config)

    def header(self, kernel: Kernel, problem: Problem) -> str:
        if c_forms(kernel):
            return super().header(kernel, problem)
        own = fitted(kernel, problem)
        return declaration(problem, own.buffers, own.scalars)

    def digest_of_code(self) -> str:
        own = sorted(Path(program.__file__).parent.glob("*.py"))
        paths = [PRELUDE, *map(Path, (__file__, programs.__file__, wrapping.__file__)), *own]
        for _, forms in sorted(_all_forms().items()):
            paths += forms.values()
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
def _knobs(forms: tuple[str, ...]) -> tuple[Knob, ...]:
    return (Knob("c_form", forms, "which of the kernel's forms"), _INTERLEAVE, *_CLANG_KNOBS)


@cache
def _program_knobs(own: tuple[Knob, ...]) -> tuple[Knob, ...]:
    return (*own, *_PROGRAM_KNOBS)


_FOLDER = "c_forms"
_PLAIN = "plain"


def c_forms(kernel: Kernel) -> dict[str, Path]:
    """The files with the loops of ``kernel`` by their names, ``plain`` first; empty without one."""
    return _forms_of(type(kernel), kernel.name)


def _all_forms() -> dict[str, dict[str, Path]]:
    """Those of all kernels that have some. Reads no kernel's code: every job asks."""
    found = {}
    for name in kernel_names():
        with contextlib.suppress(HvxtuneError):  # one that cannot be loaded fails in its own jobs
            found[name] = _forms_of(kernel_class(name), name)
    return {name: forms for name, forms in found.items() if forms}


def _forms_of(kernel: type[Kernel], name: str) -> dict[str, Path]:
    module = sys.modules[kernel.__module__]
    return {} if module.__file__ is None else _found(Path(module.__file__).parent, name)


@cache
def _found(folder: Path, kernel: str) -> dict[str, Path]:
    plain = folder / _FOLDER / f"{kernel}.c"
    if not plain.is_file():
        return {}
    others = sorted(plain.parent.glob(f"{kernel}.*.c"))
    return {_PLAIN: plain, **{path.name.split(".")[1]: path for path in others}}


def translation_unit(kernel: Kernel, problem: Problem, loops: str) -> str:
    """The C of ``problem`` with the ``loops`` of one of the kernel's forms."""
    params = problem.workload.params
    constants = {p.name: params[p.name] for p in kernel.params if not p.is_extent}
    return wrapped(problem, kernel.buffers(params), constants, loops)
