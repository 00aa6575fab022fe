"""(problem, config) -> Hexagon object: code generators, each in killable worker processes.

One line in ``_REGISTRY`` makes a new one known; ``tests/tuner/codegen`` holds the conformance
suite that each inherits.
"""

from __future__ import annotations

from importlib import import_module

from tuner.codegen.generator import CodeGenerator
from tuner.errors import UserError

_REGISTRY = {
    "halide": "tuner.codegen.halide.generator:HalideGenerator",
}
"""Generator name to ``module:class``; imported on first use."""


def generator_names() -> list[str]:
    """The names of all code generators."""
    return list(_REGISTRY)


def find_generator(name: str) -> type[CodeGenerator]:
    """The class of the generator called ``name``; it takes ``workers`` as its first argument."""
    if name not in _REGISTRY:
        raise UserError(f"unknown code generator '{name}'", accepted=", ".join(_REGISTRY))
    module, _, cls = _REGISTRY[name].partition(":")
    found: type[CodeGenerator] = getattr(import_module(module), cls)
    return found


__all__ = ["CodeGenerator", "find_generator", "generator_names"]
