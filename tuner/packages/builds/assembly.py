"""An assembly template: rendered by Jinja with knobs and parameters, assembled by the pinned clang.

Rendering runs code of the package (loops, macros), so it happens in the contained Python process.
"""

from __future__ import annotations

from tuner.codegen import clang
from tuner.errors import CandidateError
from tuner.packages.builds.build import FunctionBuild, Making
from tuner.packages.builds.c_sources import compiled_source
from tuner.packages.options import AsmOptions
from tuner.packages.python_code import PythonFailedError, rendered
from tuner.records.outcome import Outcome

_SOURCE = "rendered.s"
"""Not ``.S``: a preprocessor would run as a process of its own."""


class AsmBuild(FunctionBuild):
    """The build ``asm``."""

    kind = "asm"

    def parts(self, making: Making) -> dict[str, bytes]:
        options = making.package.manifest.build
        assert isinstance(options, AsmOptions)  # noqa: S101 - its table is of this kind
        try:
            text = rendered(options.template, making.package.files[options.template], making.values)
        except PythonFailedError as error:
            raise CandidateError(Outcome.COMPILE_ERROR, f"{options.template}: {error}") from None
        made = compiled_source(making, _SOURCE, text, ())
        return {"0.o": made[clang.OBJECT], "loopnest": text, clang.ASSEMBLY: text}
