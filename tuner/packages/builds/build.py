"""The contract of a build: one way from a package and a config to an object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from tuner.codegen import clang, wrapping
from tuner.codegen.halide.servers import CompileServer, CompileServers
from tuner.codegen.toolchain import find_toolchain
from tuner.errors import CandidateError, UserError
from tuner.packages.calling import translation_unit
from tuner.packages.files import Package
from tuner.packages.options import FunctionOptions
from tuner.packages.symbols import NotAnObjectError, defined_in, with_own_names
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.records.candidate import Problem
from tuner.records.outcome import Outcome
from tuner.space import Config, Knob, Space

if TYPE_CHECKING:
    from tuner.packages.unscheduled import Algorithm

_WRAPPER = "hvxtune_call.c"
_WRAPPER_SWITCHES = ("-std=gnu17", "-ffreestanding", "-nostdinc", "-fno-stack-protector", "-O2")


@dataclass(frozen=True)
class Making:
    """A config of a package's problem that is being made: what, and the processes to do it in."""

    package: Package
    problem: Problem
    config: Config
    buffers: tuple[BufferSpec, ...]
    scalars: tuple[ScalarSpec, ...]
    servers: CompileServers
    server: CompileServer
    with_assembly: bool = False

    @property
    def values(self) -> dict[str, int | str]:
        """Parameters and knobs by name, and ``arch``; knobs that are not active are left out."""
        arch = self.problem.target.arch
        return {"arch": arch, **self.problem.workload.params, **self.knobs}

    @property
    def knobs(self) -> dict[str, int | str]:
        """The config's values of the knobs in ``kernel.toml``."""
        named = self.package.manifest.knobs
        return {name: value for name, value in self.config.items() if name in named}


class Build(ABC):
    """A way to an object. It holds no state; :data:`tuner.packages.builds.BUILDS` lists all.

    What a package brings is untrusted: compilers run in the making's server, Python of the package
    in :mod:`tuner.packages.python_process`, and nothing of it here.
    """

    kind: ClassVar[str]

    def check(self, package: Package) -> None:  # noqa: B027 - most have nothing to add
        """``UserError`` for what is wrong with the package and shows without building it."""

    def identity(self, package: Package) -> str:
        """Names what decides objects besides the package and the pinned toolchain, such as the
        version of a compiler of others; part of the workload's key."""
        return ""

    def space(self, package: Package, problem: Problem) -> Space:
        """The configs of ``problem``: by default those of the knobs in ``kernel.toml``."""
        space = package.manifest.space_at(dict(problem.workload.params))
        return replace(space, knobs=(*space.knobs, *self.own_knobs(package)))

    def own_knobs(self, package: Package) -> tuple[Knob, ...]:
        """Knobs besides those in ``kernel.toml``; no macro or variable of the package."""
        return ()

    def defaults(self, package: Package) -> dict[str, int | str]:
        """Values of knobs that ``kernel.toml`` leaves out of its configs."""
        return {knob.name: knob.choices[0] for knob in self.own_knobs(package)}

    def algorithm(self, package: Package, config: Config) -> Algorithm | None:
        """The algorithm that the author's own schedule in ``config`` is of; ``None`` where there is
        none apart from the code."""
        return None

    def other_starts(self, package: Package, problem: Problem) -> dict[str, Config]:
        """Configs that a search begins with, besides those that ``kernel.toml`` names."""
        return {}

    @abstractmethod
    def files(self, making: Making) -> dict[str, bytes]:
        """The files of an artifact: ``object``, ``header``, and what else there is.

        Raises ``CandidateError`` if the package or the config is at fault.
        """


class FunctionBuild(Build):
    """A build of a C function of the package's own signature (:class:`FunctionOptions`): a subclass
    makes the objects that it is in."""

    @abstractmethod
    def parts(self, making: Making) -> dict[str, bytes]:
        """``N.o`` for each object; perhaps ``assembly``, and ``loopnest``, what was compiled."""

    def files(self, making: Making) -> dict[str, bytes]:
        options = making.package.manifest.build
        assert isinstance(options, FunctionOptions)  # noqa: S101 - its table is of this kind
        parts = self.parts(making)
        objects = {name: data for name, data in parts.items() if name.endswith(".o")}
        _require_function(options.function, objects)
        source = translation_unit(
            making.package.manifest,
            options,
            making.problem,
            making.config,
            making.buffers,
            making.scalars,
        )
        joined = _joined(making, {"call.o": _wrapper(making, source), **objects})
        header = wrapping.declaration(making.problem, making.buffers, making.scalars)
        return {
            "loopnest": source.encode(),
            **{name: data for name, data in parts.items() if name not in objects},
            "header": header.encode(),
            clang.OBJECT: with_own_names(joined, making.problem.symbol),
        }


def _require_function(function: str, objects: Mapping[str, bytes]) -> None:
    defined: set[str] = set()
    for name, data in objects.items():
        try:
            defined |= set(defined_in(data))
        except NotAnObjectError as error:
            raise CandidateError(Outcome.COMPILE_ERROR, f"{name}: {error}") from None
    if function not in defined:
        there = ", ".join(sorted(defined)[:8]) or "nothing"
        raise CandidateError(
            Outcome.COMPILE_ERROR,
            f"missing symbol: build.function = '{function}' is defined nowhere; the objects "
            f'define {there}; C++ needs extern "C"',
        )


def _joined(making: Making, objects: Mapping[str, bytes]) -> bytes:
    request = {"program": [str(find_toolchain().zig), "ld.lld", "-r", "-o", clang.OBJECT, *objects]}
    made = making.servers.made(making.server, request, [clang.OBJECT], objects)
    return made[clang.OBJECT]


def symbol_within(making: Making, order: Sequence[str]) -> str:
    """The name of a function of the making's arguments in ``order``, for :func:`reordered`."""
    is_ours = [*order] == [*_in_c(making)]
    return making.problem.symbol if is_ours else f"{making.problem.symbol}_reordered"


def reordered(making: Making, files: dict[str, bytes], order: Sequence[str]) -> dict[str, bytes]:
    """``files``, whose object has :func:`symbol_within`, with a function that is called as others
    are: inputs, scalars, outputs."""
    within, symbol = symbol_within(making, order), making.problem.symbol
    if within == symbol:
        return files
    types = _in_c(making)
    source = (
        "struct halide_buffer_t;\n"
        f"int {within}({', '.join(types[name] for name in order)});\n"
        f"int {symbol}({', '.join(f'{kind}{name}_' for name, kind in types.items())}) {{\n"
        f"return {within}({', '.join(f'{name}_' for name in order)});\n}}\n"
    )
    joined = _joined(making, {"call.o": _wrapper(making, source), "made.o": files[clang.OBJECT]})
    header = wrapping.declaration(making.problem, making.buffers, making.scalars)
    return {
        **files,
        "header": header.encode(),
        clang.OBJECT: with_own_names(joined, symbol),
    }


def _in_c(making: Making) -> dict[str, str]:
    """The arguments of the making's function in order, with their types."""
    pointers = {one.name: "struct halide_buffer_t *" for one in making.buffers}
    inputs = [one.name for one in making.buffers if one.role == "input"]
    values = {one.name: f"__{one.dtype.upper()}_TYPE__ " for one in making.scalars}
    return {name: pointers[name] for name in inputs} | values | pointers


def _wrapper(making: Making, source: str) -> bytes:
    made = clang.compiled(
        making.servers,
        making.server,
        making.problem.target,
        (_WRAPPER, source.encode()),
        _WRAPPER_SWITCHES,
        with_assembly=False,
    )
    return made[clang.OBJECT]


def misfit(package: Package, key: str, why: str, accepted: str, next_step: str = "") -> UserError:
    """A fault of ``[build]`` at ``key``."""
    return package.fault(("build", key), why, accepted, next_step)
