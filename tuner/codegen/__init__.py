"""(problem, config) -> Hexagon object: code generators, each in killable worker processes.

One line in ``REGISTRY`` makes a new one known, and in a package an entry point of the group
``hvxtune.generators``; each inherits the conformance suite in ``tuner/conformance/generators.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.codegen.generator import CodeGenerator
from tuner.registry import Registry

if TYPE_CHECKING:
    from tuner.kernels import Kernel
    from tuner.records.candidate import Problem
    from tuner.space import Config, Space

REGISTRY: Registry[CodeGenerator] = Registry(
    "code generator",
    "hvxtune.generators",
    {
        "halide": "tuner.codegen.halide.generator:HalideGenerator",
        "halide-clang": "tuner.codegen.clang:HalideClangGenerator",
        "c-autovec": "tuner.codegen.c_forms:CGenerator",
        "hvx": "tuner.codegen.hvx.generator:HvxGenerator",
        "halide-auto": "tuner.codegen.halide.generator:AutoscheduledGenerator",
        "portfolio": "tuner.codegen.portfolio:Portfolio",
    },
    CodeGenerator,
    option="--generator",
)
"""All code generators."""


def generator_names() -> list[str]:
    """The names of all code generators."""
    return REGISTRY.names()


def find_generator(name: str) -> type[CodeGenerator]:
    """The class of the generator called ``name``; it takes ``workers`` as its first argument."""
    return REGISTRY.find(name)


def space_of(generator: str, kernel: Kernel, problem: Problem) -> Space:
    """The space of a search with ``generator``: see :meth:`CodeGenerator.space`."""
    return find_generator(generator).space(kernel, problem)


def starts_of(generator: str, kernel: Kernel, problem: Problem) -> dict[str, Config]:
    """The first configs of such a search, by origin: see :meth:`CodeGenerator.starts`."""
    return find_generator(generator).starts(kernel, problem)


__all__ = ["CodeGenerator", "find_generator", "generator_names", "space_of", "starts_of"]
