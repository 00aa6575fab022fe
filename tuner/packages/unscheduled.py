"""The algorithm of a package's Generator without its schedule: a pipeline as an upload is one.

The Generator's program emits it (``-e hlpipe``). Its space is derived, and it is interpreted as the
reference. Its sizes follow from the package's arguments, which are its buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.codegen.halide.compilation import halide_target
from tuner.codegen.halide.servers import MEMORY_LIMIT_BYTES, TIME_LIMIT_S, CompileServers
from tuner.codegen.halide.uploads.contents import is_parallel
from tuner.errors import CandidateError, UserError
from tuner.identity import canonical_json, digest_of_bytes
from tuner.kernels.kernel import Array, WorkCounts
from tuner.machine.whole_files import write_whole
from tuner.packages.files import Package
from tuner.packages.generator_program import chosen, fixed_params, options_of, program_of
from tuner.packages.generators import Emission, emitted
from tuner.paths import cached
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.target import BASELINE_TARGET, find_target
from tuner.records.candidate import Problem
from tuner.uploaded import PipelineKernel, files, find_pipeline, kernel_name

_FOLDER = "generators"


class Algorithm:
    """The pipeline of ``package`` as a kernel of its own, which has those of the package's buffers
    and scalars that it uses, in an order of its own. Loops may be parallel if those of its author
    are."""

    def __init__(self, package: Package, kernel: PipelineKernel) -> None:
        self._package = package
        self.kernel = kernel
        self._is_parallel = is_parallel(kernel.data)

    def sizes(self, specs: Sequence[BufferSpec]) -> dict[str, int]:
        """The pipeline's parameters for the package's buffers, which are ``specs``, and scalars;
        ``UserError`` if these are not its own."""
        scalars = self._package.manifest.scalars
        shapes = {_plain(spec.name): spec.shape[::-1] for spec in specs}
        first = next(spec for spec in specs if spec.role == "output")
        extents = [p for p in self.kernel.params if p.is_extent and p.minimum > 0]
        sizes = {p.name: n for p, n in zip(extents, first.shape[::-1], strict=False)}
        known = {param.name for param in self.kernel.params}
        sizes[self.kernel.parallel.name] = int(self._is_parallel)
        sizes |= {_plain(one.name): one.value for one in scalars if _plain(one.name) in known}
        usual = self.kernel.buffers(self.kernel.workload(sizes).params)
        follows = {(_plain(one.name), one.shape[::-1]) for one in usual}
        for param in self.kernel.params:
            name, _, dimension = param.name.rpartition("_")
            if param.is_extent and not param.minimum and dimension.isdigit():
                shape = shapes.get(name, ())
                if int(dimension) < len(shape) and (name, shape) not in follows:
                    sizes[param.name] = shape[int(dimension)]
        params = self.kernel.workload(sizes).params
        theirs: list[_Argument] = [*self.kernel.buffers(params), *self.kernel.scalars(params)]
        ours: list[_Argument] = [
            *specs,
            *(ScalarSpec(one.name, one.dtype, one.value) for one in scalars),
        ]
        used = {one.name for one in theirs} | set(_names(specs, "output"))
        if {*map(_essence, theirs)} != {_essence(one) for one in ours if one.name in used}:
            raise self._package.fault(
                ["arguments"],
                f"the Generator's algorithm has {_told(theirs)}, here it is {_told(ours)}",
                "the same buffers and scalars, besides inputs that are not used",
            )
        return sizes

    def problem(self, problem: Problem, specs: Sequence[BufferSpec]) -> Problem:
        """The package's ``problem`` as one of the pipeline."""
        return self.kernel.problem(self.sizes(specs), problem.contract, problem.target)

    def order(self, problem: Problem) -> list[str]:
        """The names of the arguments as the pipeline's function takes them, for a ``problem`` of
        its own."""
        params = problem.workload.params
        buffers = self.kernel.buffers(params)
        inputs = [one.name for one in buffers if one.role == "input"]
        outputs = [one.name for one in buffers if one.role == "output"]
        return [*inputs, *(one.name for one in self.kernel.scalars(params)), *outputs]

    def work(self, specs: Sequence[BufferSpec]) -> WorkCounts:
        """What a call with these buffers asks for at least."""
        return self.kernel.work(self.kernel.workload(self.sizes(specs)).params)

    def references(
        self, specs: Sequence[BufferSpec], calls: Sequence[Sequence[Array]]
    ) -> list[list[Array]]:
        """The outputs for the inputs of each call."""
        params = self.kernel.workload(self.sizes(specs)).params
        theirs = self.kernel.buffers(params)
        given, taken = _names(specs, "input"), _names(theirs, "input")
        made, wanted = _names(theirs, "output"), _names(specs, "output")
        sorted_calls = [[call[given.index(name)] for name in taken] for call in calls]
        return [
            [outputs[made.index(name)] for name in wanted]
            for outputs in self.kernel.references(params, sorted_calls)
        ]


def _plain(name: str) -> str:
    """As a pipeline calls the parameters of a buffer or scalar."""
    return name.lower().strip("_")


def _names(specs: Sequence[BufferSpec], role: str) -> list[str]:
    return [one.name for one in specs if one.role == role]


_Argument = BufferSpec | ScalarSpec


def _essence(one: _Argument) -> tuple[object, ...]:
    if isinstance(one, ScalarSpec):
        return one
    return one.name, one.role, one.dtype, one.shape, one.mins


def _told(arguments: Sequence[_Argument]) -> str:
    return ", ".join(
        f"{one.name} {one.dtype} = {one.value}"
        if isinstance(one, ScalarSpec)
        else f"{one.name} {one.dtype}{list(one.shape)}"
        + (f" from {list(one.mins)}" if one.mins else "")
        for one in arguments
    )


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
    params = {**fixed_params(package, {}), **options.unscheduled}
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
            raise UserError(
                f"the Generator {emission.generator} gives no pipeline: {error.message[-300:]}",
                accepted="GeneratorParams by which it gives one",
                next_step="fix them by --param or in kernel.toml, as in output.type=uint8",
            ) from None
        finally:
            servers.close()
        write_whole(place, made["pipeline"])
    try:
        return Algorithm(package, find_pipeline(kernel_name(files.keep(place.read_bytes()))))
    except UserError as error:
        raise UserError(
            f"the algorithm of the Generator {emission.generator} cannot be tuned: {error.message}",
            accepted=error.accepted or "a pipeline as docs/pipelines.md says",
            next_step=error.next_step,
        ) from None
