"""The algorithm of a package's Generator without its schedule: a pipeline as an upload is one.

The Generator's program emits it (``-e hlpipe``). Its space is derived, and it is interpreted as the
reference. Its sizes follow from the package's arguments, which are its buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.codegen.halide.compilation import halide_target
from tuner.codegen.halide.servers import MEMORY_LIMIT_BYTES, TIME_LIMIT_S, CompileServers
from tuner.errors import CandidateError, UserError
from tuner.identity import canonical_json, digest_of_bytes
from tuner.kernels.kernel import Array
from tuner.machine.whole_files import write_whole
from tuner.packages.files import Package
from tuner.packages.generator_program import chosen, fixed_params, options_of, program_of
from tuner.packages.generators import Emission, emitted
from tuner.paths import cached
from tuner.problem.buffers import BufferSpec
from tuner.problem.target import BASELINE_TARGET, find_target
from tuner.records.candidate import Problem
from tuner.uploaded import PipelineKernel, files, find_pipeline, kernel_name

_FOLDER = "generators"


class Algorithm:
    """The pipeline of ``package`` as a kernel of its own."""

    def __init__(self, package: Package, kernel: PipelineKernel) -> None:
        self._package = package
        self.kernel = kernel

    def sizes(self, specs: Sequence[BufferSpec]) -> dict[str, int]:
        """The pipeline's parameters for the package's buffers; ``UserError`` if these are not its
        buffers."""
        shapes = {spec.name: spec.shape[::-1] for spec in specs}
        first = next(spec for spec in specs if spec.role == "output")
        extents = [p for p in self.kernel.params if p.is_extent and not p.is_optional]
        sizes = {p.name: n for p, n in zip(extents, shapes[first.name], strict=False)}
        for param in self.kernel.params:
            name, _, dimension = param.name.rpartition("_")
            if param.is_optional and name in shapes and dimension.isdigit():
                sizes[param.name] = shapes[name][int(dimension)]
        found = self.kernel.buffers(self.kernel.workload(sizes).params)
        ours, theirs = (
            [(one.name, one.role, one.dtype, one.shape) for one in some] for some in (specs, found)
        )
        if ours != theirs:
            raise self._package.fault(
                ["arguments"],
                f"the unscheduled Generator has the buffers {_told(found)}, here they are "
                f"{_told(specs)}",
                "the same buffers in the same order",
            )
        return sizes

    def problem(self, problem: Problem, specs: Sequence[BufferSpec]) -> Problem:
        """The package's ``problem`` as one of the pipeline."""
        return self.kernel.problem(self.sizes(specs), problem.contract, problem.target)

    def references(
        self,
        values: Mapping[str, int],
        specs: Sequence[BufferSpec],
        calls: Sequence[Sequence[Array]],
    ) -> list[list[Array]]:
        """The outputs for the inputs of each call; ``values`` have the scalars."""
        names = {param.name for param in self.kernel.params}
        scalars = {name: value for name, value in values.items() if name in names}
        sizes = {**scalars, **self.sizes(specs)}
        return self.kernel.references(self.kernel.workload(sizes).params, calls)


def _told(specs: Sequence[BufferSpec]) -> str:
    return ", ".join(f"{one.name} {one.dtype}{list(one.shape)}" for one in specs)


_MADE: dict[str, Algorithm] = {}
_MOST_MADE = 64


def algorithm_of(package: Package) -> Algorithm:
    """The algorithm of ``package``, made once and kept in the cache. ``UserError`` if it gives none
    that can be tuned."""
    if package.digest not in _MADE:
        if len(_MADE) >= _MOST_MADE:
            _MADE.clear()
        _MADE[package.digest] = _made(package)
    return _MADE[package.digest]


def _made(package: Package) -> Algorithm:
    options = options_of(package)
    params = {**fixed_params(package, {}), **(options.unscheduled or {})}
    emission = Emission(
        program_of(package),
        chosen(package).name,
        halide_target(find_target(BASELINE_TARGET)),
        "algorithm",
    )
    key = canonical_json([emission.program.name, emission.generator, params])
    place = cached(_FOLDER) / f"{digest_of_bytes(key.encode())}.hlpipe"
    if not place.exists():
        servers = CompileServers(1, TIME_LIMIT_S, MEMORY_LIMIT_BYTES)
        try:
            with servers.one() as server:
                made = emitted(servers, server, emission, params, ["pipeline"])
        except CandidateError as error:
            raise package.fault(
                ["build", "unscheduled"],
                f"the Generator gives no pipeline: {error.message[-300:]}",
                "GeneratorParams that switch its schedule off",
            ) from None
        finally:
            servers.close()
        write_whole(place, made["pipeline"])
    try:
        return Algorithm(package, find_pipeline(kernel_name(files.keep(place.read_bytes()))))
    except UserError as error:
        raise package.fault(
            ["build", "unscheduled"],
            f"the pipeline cannot be tuned: {error.message}",
            error.accepted or "a pipeline as docs/pipelines.md says, without a schedule",
        ) from None
