"""A Python function that returns C or an object, run in the contained Python process."""

from __future__ import annotations

from tuner.codegen import clang
from tuner.errors import CandidateError
from tuner.packages.builds.build import FunctionBuild, Making
from tuner.packages.builds.c_sources import C_SWITCHES, compiled_source
from tuner.packages.files import Package
from tuner.packages.options import PythonOptions
from tuner.packages.python_code import PythonFailedError, made_by
from tuner.records.outcome import Outcome
from tuner.space import Knob

_SOURCE = "made.c"


class PythonBuild(FunctionBuild):
    """The build ``python``."""

    kind = "python"

    def own_knobs(self, package: Package) -> tuple[Knob, ...]:
        return (clang.PIPELINER,)

    def parts(self, making: Making) -> dict[str, bytes]:
        options = making.package.manifest.build
        assert isinstance(options, PythonOptions)  # noqa: S101 - its table is of this kind
        source = making.package.files[options.file]
        try:
            made = made_by(options.file, options.maker, source, making.values)
        except PythonFailedError as error:
            raise CandidateError(Outcome.COMPILE_ERROR, f"{options.file}: {error}") from None
        kind, content = made[:1], made[1:]
        if kind == b"o":
            return {"0.o": content, "loopnest": f"object made by {options.file}\n".encode()}
        found = compiled_source(making, _SOURCE, content, C_SWITCHES)
        parts = {"0.o": found[clang.OBJECT], "loopnest": content}
        return parts | {name: data for name, data in found.items() if name == clang.ASSEMBLY}
