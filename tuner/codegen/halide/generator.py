"""The Halide code generator: candidates into the requests of compile servers."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from tuner.codegen.halide import LOWERED
from tuner.codegen.halide.servers import LLVM_ARGUMENTS, CompileServer, ServerGenerator
from tuner.codegen.requirements import reinstall
from tuner.errors import CandidateError, ToolchainError
from tuner.identity import digest_of_bytes
from tuner.kernels import Kernel, find_kernel
from tuner.kernels.sources import source_digest
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Directive, Knob, Space

_BASE_KINDS = ("header", "schedule", LOWERED)
TUNER = Path(__file__).parents[2]
LOADED = (
    *("codegen", "kernels", "problem", "program", "records", "space", "uploaded"),
    *("__init__.py", "errors.py", "identity.py", "packages/__init__.py", "paths.py"),
    *("plain_text.py", "registry.py"),
)
"""Rooms and modules of ``tuner`` that a compile server loads."""


class HalideGenerator(ServerGenerator):
    """Compiles candidates with the Halide wheel's own LLVM."""

    name = "halide"
    takes_directives = True

    def fingerprint(self) -> Mapping[str, str]:
        try:
            return {
                "generator": self.name,
                "halide": version("halide"),
                "llvm_arguments": LLVM_ARGUMENTS,
                "python": platform.python_version(),
                "compile server": digest_of_sources(TUNER)[:16],
                **_code_of_others(type(self)),
            }
        except PackageNotFoundError:
            raise ToolchainError(
                "the Python package 'halide' is missing", next_step=reinstall("halide")
            ) from None

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        kinds = ["object", *_BASE_KINDS, *(["assembly"] if with_assembly else [])]
        with self.servers.one() as server:
            files = self._emitted(server, candidate.problem, candidate.config, kinds)
        identity = files.pop(LOWERED).decode()
        digest = digest_of_bytes(files["object"])
        return Artifact(digest, candidate.problem.symbol, files, identity=identity)

    def compile_directives(self, problem: Problem, directives: Sequence[Directive]) -> Artifact:
        kinds = ["object", "header", "schedule"]
        told = [one.as_dict() for one in directives]
        with self.servers.one() as server:
            files = self._emitted(server, problem, Config({}), kinds, directives=told)
        return Artifact(digest_of_bytes(files["object"]), problem.symbol, files)

    def _emitted(
        self,
        server: CompileServer,
        problem: Problem,
        config: Config,
        kinds: Sequence[str],
        **more: Any,
    ) -> dict[str, bytes]:
        """The files that Halide makes of ``config``: ``kinds``, and the loop nest. ``more`` is for
        the request (:func:`tuner.codegen.halide.compilation.compile_request`)."""
        request = {**_request(problem, config, kinds), **more}
        return self.servers.made(server, request, [*kinds, "loopnest"])

    def identity(self, candidate: Candidate, *, at_once: bool = False) -> str | None:
        if at_once:
            return None
        with self.servers.one() as server:
            request = _request(candidate.problem, candidate.config, [LOWERED])
            try:
                return self.servers.made(server, request, [LOWERED])[LOWERED].decode()
            except CandidateError:
                return None  # its compilation says why


def _request(problem: Problem, config: Config, kinds: Sequence[str]) -> dict[str, Any]:
    kernel = find_kernel(problem.workload.kernel)
    return {
        "workload": problem.workload.as_dict(),
        "contract": problem.contract.value,
        "target": problem.target.as_dict(),
        "config": config.as_dict(),
        "symbol": problem.symbol,
        "attachment": kernel.attachment(problem),
        "kinds": list(kinds),
    }


def _code_of_others(generator: type) -> dict[str, str]:
    """Names the code of a generator that another package adds; that of ours is known."""
    if generator.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return {}
    return {"generator code": source_digest(generator)}


@cache
def digest_of_sources(tuner: Path) -> str:
    """Names the code that compile servers load from the folder ``tuner``.

    Among it is all that describes pipelines, applies schedules and fixes where the memory of a
    compilation lies. The rest decides no object; leaving it out would take a list kept by hand.
    """
    places = [tuner / name for name in LOADED]
    sources = [path for path in places if path.is_file()]
    sources += [path for room in places for kind in ("*.py", "*.c") for path in room.rglob(kind)]
    sources.sort()
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in sources))


NONE: Final = "none"
_AUTOSCHEDULER = Knob(
    "autoscheduler",
    # Anderson2021, the fourth that Halide brings, is for GPUs only.
    (NONE, "Mullapudi2016", "Li2018", "Adams2019"),
    "which of Halide's autoschedulers, if any",
)


class AutoscheduledGenerator(HalideGenerator):
    """For comparison: what users have who do not schedule. Its space is a single knob.

    None of the autoschedulers was made for HVX: some give wrong code, some abort. Both are outcomes
    as of any candidate.
    """

    name = "halide-auto"
    default_is_naive = True
    takes_directives = False

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        return Space(kernel.name, (_AUTOSCHEDULER,))

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        return {
            "default": Config({"autoscheduler": NONE}),
            "textbook": Config({"autoscheduler": "Mullapudi2016"}),
        }

    def identity(self, candidate: Candidate, *, at_once: bool = False) -> str | None:
        return None

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem, chosen = candidate.problem, candidate.config.text("autoscheduler")
        kinds = ["object", "header", *(["assembly"] if with_assembly else [])]
        with self.servers.one() as server:
            files = self._emitted(
                server,
                problem,
                candidate.config,
                kinds,
                autoscheduler="" if chosen == NONE else chosen,
            )
        return Artifact(digest_of_bytes(files["object"]), problem.symbol, files)
