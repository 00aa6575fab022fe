"""Kernels as plain C, vectorized for HVX by clang.

A kernel's loops are in ``c_forms/KERNEL.c`` beside the kernel, further forms in ``KERNEL.NAME.c``.
They are wrapped as a function that is called like Halide's (:mod:`tuner.codegen.wrapping`).
Parameters of the kernel that are not extents are constants by their own names.
"""

from __future__ import annotations

import contextlib
import sys
from functools import cache
from pathlib import Path

from tuner.codegen import clang, wrapping
from tuner.codegen.wrapping import PRELUDE, wrapped
from tuner.codegen.written import SWITCHES, WrittenGenerator
from tuner.errors import HvxtuneError, UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, kernel_class, kernel_names
from tuner.kernels.sources import content_of
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, Space

_INTERLEAVE = Knob("c_interleave", (1, 2), "vectors of one loop side by side")
_CLANG_KNOBS = tuple(k for k in clang.KNOBS if k.name in ("llvm_unroll", "llvm_combine"))
"""The others hardly change such code: eight points a form, for searches that try C by the way."""


class CGenerator(WrittenGenerator):
    """Code for kernels that have a C form (:func:`c_forms`); the space is a handful of points."""

    name = "c-autovec"
    switches = (*SWITCHES, "-mllvm", "-hexagon-autohvx")

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        forms = c_forms(kernel)
        if not forms:
            raise UserError(
                f"{kernel.name} has no C form, which the generator '{cls.name}' needs",
                accepted=", ".join(_all_forms()),
                next_step="choose another generator, such as halide",
            )
        return Space(kernel.name, _knobs(tuple(forms)))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        """Default: the plain form with clang's defaults. Textbook: the last form."""
        space = cls.space(kernel, problem)
        plain = {knob.name: knob.choices[0] for knob in space.knobs}
        last = list(c_forms(kernel))[-1]
        return {"default": Config(plain), "textbook": Config({**plain, "c_form": last})}

    def source(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        loops = content_of(c_forms(kernel)[config.text("c_form")]).decode()
        return translation_unit(kernel, problem, loops)

    def digest_of_code(self) -> str:
        paths = [PRELUDE, Path(__file__), Path(wrapping.__file__)]
        for _, forms in sorted(_all_forms().items()):
            paths += forms.values()
        return digest_of_bytes(b"\0".join(path.read_bytes() for path in paths))

    def switches_for(self, kernel: Kernel, problem: Problem, config: Config) -> list[str]:
        interleave = f"-force-vector-interleave={config.integer('c_interleave')}"
        return ["-mllvm", interleave, *super().switches_for(kernel, problem, config)]


@cache
def _knobs(forms: tuple[str, ...]) -> tuple[Knob, ...]:
    return (Knob("c_form", forms, "which of the kernel's forms"), _INTERLEAVE, *_CLANG_KNOBS)


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
