"""(problem, config) -> Hexagon object: code generators, each in killable worker processes.

One line in ``REGISTRY`` makes a new one known, and in a package an entry point of the group
``hvxtune.generators``; each inherits the conformance suite in ``tuner/conformance/generators.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.codegen.generator import GENERATOR, CodeGenerator
from tuner.errors import UserError
from tuner.records.candidate import OF_SCHEDULES
from tuner.records.request import DEFAULT_GENERATOR
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
        "c-autovec": "tuner.codegen.c_autovec:CGenerator",
        "hvx": "tuner.codegen.hvx.generator:HvxGenerator",
        "intrinsics": "tuner.codegen.intrinsics.generator:IntrinsicsGenerator",
        "halide-auto": "tuner.codegen.halide.generator:AutoscheduledGenerator",
        "portfolio": "tuner.codegen.portfolio:Portfolio",
        "package": "tuner.codegen.packaged:PackageGenerator",
    },
    CodeGenerator,
    choose_with="choose one of these, or leave the generator out",
)
"""All code generators."""


def generator_names() -> list[str]:
    """The names of all code generators."""
    return REGISTRY.names()


def find_generator(name: str) -> type[CodeGenerator]:
    """The class of the generator called ``name``; it takes ``workers`` as its first argument."""
    return REGISTRY.find(name)


def generator_for(kernel: Kernel, asked: str | None = None) -> str:
    """The generator of a search over ``kernel`` for who asks for ``asked``, or for none: the one
    that alone makes code of it, or the default.

    ``UserError`` if it is asked for another than the one.
    """
    if not kernel.generator:
        return asked or DEFAULT_GENERATOR
    if asked and asked != kernel.generator:
        raise UserError(
            f"generator '{asked}' for {kernel.name}",
            accepted=kernel.generator,
            next_step="leave the generator out: this kernel brings its own way to an object",
        )
    return kernel.generator


def generator_of(kernel: Kernel, config: Mapping[str, object]) -> str:
    """The generator that makes code of a single ``config`` of ``kernel`` for who names none: a
    config of a portfolio names its own, others are schedules."""
    if kernel.generator:
        return kernel.generator
    return "portfolio" if GENERATOR in config else OF_SCHEDULES


def space_of(generator: str | None, kernel: Kernel, problem: Problem) -> Space:
    """The space of a search with ``generator``: see :meth:`CodeGenerator.space`."""
    return find_generator(generator_for(kernel, generator)).space(kernel, problem)


def starts_of(generator: str | None, kernel: Kernel, problem: Problem) -> dict[str, Config]:
    """The first configs of such a search, by origin: see :meth:`CodeGenerator.starts`."""
    return find_generator(generator_for(kernel, generator)).starts(kernel, problem)


__all__ = [
    "CodeGenerator",
    "find_generator",
    "generator_for",
    "generator_names",
    "generator_of",
    "space_of",
    "starts_of",
]
