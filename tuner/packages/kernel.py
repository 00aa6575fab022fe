"""A package as a kernel: its buffers, reference, space and code from ``kernel.toml``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tuner.codegen.halide.servers import CompileServer, CompileServers
from tuner.codegen.packaged import PackagedKernel
from tuner.errors import InternalError, UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import PACKAGE_PREFIX
from tuner.kernels.kernel import Array, HalidePipeline, WorkCounts
from tuner.packages import files
from tuner.packages.builds import Build, Making, find_build
from tuner.packages.expressions import arithmetic, condition
from tuner.packages.files import Package
from tuner.packages.manifest import ArgumentTable, DataTable, buffer_of, is_input, value_at
from tuner.packages.references import reference_of
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.problem.objectives import checked_objectives
from tuner.problem.target import Target
from tuner.problem.tolerance import Tolerance
from tuner.problem.workload import Param, Problem
from tuner.space import Config, Directive, Space

_KEPT_KERNELS, _MOST_SPACES = 64, 256


class PackageKernel(PackagedKernel):
    """The kernel in ``package``, which is checked here as far as it can be without building it."""

    def __init__(self, package: Package) -> None:
        manifest = package.manifest
        self.package = package
        self.name = package.kernel  # type: ignore[misc]
        self.version = manifest.version  # type: ignore[misc]
        self.summary = f"{manifest.name}: {manifest.summary}"  # type: ignore[misc]
        self.params = tuple(  # type: ignore[misc]
            Param(
                name=name,
                default=table.default,
                doc=table.doc,
                minimum=table.minimum,
                maximum=table.maximum,
                multiple=table.multiple,
                is_extent=table.is_extent,
            )
            for name, table in manifest.params.items()
        )
        self.objectives = checked_objectives(manifest.objectives)  # type: ignore[misc]
        constraints = [condition(one.require) for one in manifest.constraints]
        self.refuses_shapes = any(  # type: ignore[misc]
            one.names & manifest.params.keys() for one in constraints
        )
        self._spaces: dict[str, Space] = {}
        self.build.check(package)
        self._reference = reference_of(package)

    @cached_property
    def build(self) -> Build:
        """The way to its objects."""
        return find_build(self.package.manifest.build.kind)

    @cached_property
    def source(self) -> str:
        """Names the code here that makes its objects, and compilers of others."""
        foreign = self.build.identity(self.package)
        return digest_of_bytes(_digest_of_code().encode() + foreign.encode())[:16]

    @property
    def known_as(self) -> str:
        """Its name without its digest: an edited package is verified on the same inputs."""
        return f"{PACKAGE_PREFIX}{self.package.manifest.name}"

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        return tuple(buffer_of(table, params) for table in self.package.manifest.buffers)

    def tolerances(self) -> Mapping[str, Tolerance]:
        manifest = self.package.manifest
        return {
            one.name: Tolerance(**manifest.tolerance[one.name].model_dump())
            if one.name in manifest.tolerance
            else Tolerance()
            for one in manifest.arguments
            if one.role == "output" and one.dtype.startswith("float")
        }

    def scalars(self, params: Mapping[str, int]) -> tuple[ScalarSpec, ...]:
        found = self.package.manifest.scalars
        return tuple(ScalarSpec(one.name, one.dtype, one.value) for one in found)

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        return self.references(params, [inputs])[0]

    def references(
        self, params: Mapping[str, int], calls: Sequence[Sequence[Array]]
    ) -> list[list[Array]]:
        values = {**params, **{one.name: one.value for one in self.package.manifest.scalars}}
        return self._reference.outputs(values, self.buffers(params), calls)

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        made = super().inputs(params, rng)
        tables = [one for one in self.package.manifest.buffers if is_input(one)]
        for at, table in enumerate(tables):
            if isinstance(table, ArgumentTable) and table.is_bounded and made[at].dtype.kind == "f":
                least = table.minimum if table.minimum is not None else (table.maximum or 0) - 1
                most = table.maximum if table.maximum is not None else least + 1
                made[at] = rng.uniform(least, most, made[at].shape).astype(table.dtype)
        return self.allowed_inputs(params, made)

    def given_inputs(self, params: Mapping[str, int]) -> dict[str, list[Array]]:
        return self._reference.inputs(self.buffers(params))

    def allowed_inputs(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        """Within the range of each argument; data as it stands in the package."""
        tables = [one for one in self.package.manifest.buffers if is_input(one)]
        return [
            self._data(table, dict(params))
            if isinstance(table, DataTable)
            else _within(array, table)
            if table.is_bounded
            else array
            for table, array in zip(tables, inputs, strict=True)
        ]

    def _data(self, table: DataTable, params: dict[str, int]) -> Array:
        shape = tuple(value_at(extent, params) for extent in table.shape)
        if table.file is not None:
            made = np.frombuffer(self.package.files[table.file], table.dtype)
        else:
            made = np.array(table.value, table.dtype).reshape(-1)
        if made.size == 1:
            return np.full(shape, made[0], table.dtype)
        if made.size != np.prod(shape):
            raise UserError(
                f"data {table.name} of {self.name} has {made.size} elements",
                accepted=f"{np.prod(shape)} for the shape {list(shape)}, or one for all",
                next_step="change its value or file, or the parameters",
            )
        return made.reshape(shape).copy()

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        stated: dict[str, Any] = {
            name: int(arithmetic(text).value(dict(params)))
            for name, text in self.package.manifest.work
            if text is not None
        }
        counts = self._reference.work(self.buffers(params)) or super().work(params)
        return replace(counts, **stated)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        raise InternalError(f"{self.name} is a package: it has no pipeline")

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        raise InternalError(f"{self.name} is a package: it has no schedule")

    def problem(
        self, params: Mapping[str, int] | None, contract: Contract, target: Target
    ) -> Problem:
        kept = self.package.manifest.contracts
        if contract.value not in kept:
            raise UserError(
                f"contract '{contract}' for {self.package.manifest.name}",
                accepted=", ".join(kept),
                next_step=f"use contract {kept[-1]}, or add it to contracts in kernel.toml if "
                "the code is right under it",
            )
        return super().problem(params, contract, target)

    def space(self, problem: Problem) -> Space:
        if problem.digest not in self._spaces:
            if len(self._spaces) >= _MOST_SPACES:
                self._spaces.clear()
            self._spaces[problem.digest] = self.build.space(self.package, problem)
        return self._spaces[problem.digest]

    def default_config(self, problem: Problem) -> Config:
        return self._config_of(problem, self._config("default") or {})

    def baseline_config(self, problem: Problem) -> Config | None:
        values = self._config("baseline")
        return None if values is None else self._config_of(problem, values)

    def blame(self, problem: Problem, config: Config) -> str:
        """Of a Generator's own schedule: whether its algorithm is wrong too."""
        params = problem.workload.params
        try:
            algorithm = self.build.algorithm(self.package, config)
            if algorithm is None:
                return ""
            inputs = [self.inputs(params, np.random.default_rng(0))]
            ((*theirs,),) = algorithm.references(self.buffers(params), inputs)
            ((*ours,),) = self.references(params, inputs)
        except UserError:
            return ""  # an algorithm that cannot be interpreted
        agree = all(map(np.array_equal, ours, theirs))
        return (
            "without its schedule the Generator gives what the reference gives, so the schedule is "
            "wrong, or Halide's code for it"
            if agree
            else "without its schedule, too, the Generator gives other values than the reference"
        )

    def other_starts(self, problem: Problem) -> dict[str, Config]:
        return self.build.other_starts(self.package, problem)

    def _config_of(self, problem: Problem, values: Mapping[str, int | str]) -> Config:
        wanted = {**self.build.defaults(self.package), **values}
        return self.space(problem).nearest_config(wanted)

    def _config(self, name: Any) -> dict[str, int | str] | None:
        return self.package.manifest.configs.get(name)

    def files_of(
        self,
        problem: Problem,
        config: Config,
        servers: CompileServers,
        server: CompileServer,
        *,
        with_assembly: bool,
    ) -> Mapping[str, bytes]:
        params = problem.workload.params
        making = Making(
            self.package,
            problem,
            config,
            self.buffers(params),
            self.scalars(params),
            servers,
            server,
            with_assembly,
        )
        return self.build.files(making)


def _within(array: Array, table: ArgumentTable) -> Array:
    """The nearest allowed values; NaN has no nearest, and a bound stands for it."""
    if array.dtype.kind == "f":
        bound = table.minimum if table.minimum is not None else table.maximum
        array = np.where(np.isnan(array), array.dtype.type(bound or 0), array)
    return np.clip(array, table.minimum, table.maximum).astype(array.dtype)


@lru_cache(maxsize=1)
def _digest_of_code() -> str:
    content = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        content.update(path.read_bytes())
    return content.hexdigest()


def find_package(name: str) -> PackageKernel:
    """The kernel ``package:DIGITS`` or ``package:NAME``; ``UserError`` if it is not kept here."""
    digest = files.find(name.removeprefix(PACKAGE_PREFIX))
    if digest is None:
        raise files.unknown(name)
    return _loaded(digest)


@lru_cache(maxsize=_KEPT_KERNELS)
def _loaded(digest: str) -> PackageKernel:
    return PackageKernel(files.read(digest))


def kept_here(package: Package) -> PackageKernel:
    """Checks ``package`` and keeps it in the state directory; returns its kernel."""
    kernel = PackageKernel(package)
    files.keep(package)
    return kernel
