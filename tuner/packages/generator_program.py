"""The program of a package's Generator, and the Generator in it that is meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.packages.files import Package, filled
from tuner.packages.generators import CppSources, Generator, listed, ready_program
from tuner.packages.options import GeneratorOptions


def options_of(package: Package) -> GeneratorOptions:
    """The table ``[build]``."""
    options = package.manifest.build
    assert isinstance(options, GeneratorOptions)  # noqa: S101 - its table is of this kind
    return options


def program_of(package: Package) -> Path:
    """The program, built now if it is not in the cache."""
    options = options_of(package)
    if options.program is not None:
        return ready_program(options.program, package.files[options.program])
    names = (*options.sources, *options.headers)
    return CppSources({name: package.files[name] for name in names}, options.sources).program()


def chosen(package: Package) -> Generator:
    """The Generator that ``kernel.toml`` means; ``UserError`` if the program lacks it."""
    wanted = options_of(package).generator
    found = {one.name: one for one in listed(program_of(package))}
    if wanted in found:
        return found[wanted]
    if not wanted and len(found) == 1:
        return next(iter(found.values()))
    raise package.fault(
        ["build", "generator"],
        f"the program has no Generator '{wanted}'" if wanted else "the program has several",
        ", ".join(found) or "a program with HALIDE_REGISTER_GENERATOR",
    )


def fixed_params(package: Package, static: Mapping[str, int]) -> dict[str, int | str]:
    """GeneratorParams that the package fixes; ``static`` are the workload's parameters where its
    contract fixes them, else empty."""
    options = options_of(package)
    given = {**options.params, **(options.static if static else {})}
    return {
        name: filled(value, static) if isinstance(value, str) else value
        for name, value in given.items()
    }
