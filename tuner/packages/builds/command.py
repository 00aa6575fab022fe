"""Any compiler, as an argument vector without a shell, in a process that may start others.

The program runs with the package's sources in a folder of its own, an empty environment, no
network, and to read no more than the system's programs, its own folder and ``reads``. The
program is the choice of the package's author: the containment keeps accidents and hostile packages
from files and the network.
"""

from __future__ import annotations

import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.codegen import clang
from tuner.codegen.confinement import SYSTEM
from tuner.codegen.halide.servers import (
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
    CompileServers,
)
from tuner.codegen.toolchain import find_toolchain
from tuner.errors import CandidateError, UserError
from tuner.packages.builds.build import FunctionBuild, Making, misfit
from tuner.packages.files import Package, filled
from tuner.packages.options import CommandOptions
from tuner.records.outcome import Outcome

_OBJECT = "object"
_ZIG = "zig"
_MOST_VERSION_CHARACTERS = 400


class CommandBuild(FunctionBuild):
    """The build ``command``."""

    kind = "command"

    def check(self, package: Package) -> None:
        options = _options(package)
        if not any("{object}" in part for part in options.command):
            raise misfit(package, "command", "no part is {object}", "the file that it writes")
        known = {"object", "arch", "headers", *package.manifest.params, *package.manifest.knobs}
        for name in re.findall(r"\{(\w+)\}", " ".join(options.command)):
            if name not in known:
                raise misfit(package, "command", f"'{{{name}}}'", ", ".join(sorted(known)))
        for key in ("command", "version"):
            _program(package, key)

    def identity(self, package: Package) -> str:
        """The output of its version command."""
        options = _options(package)
        program = _program(package, "version")
        return _version(str(program), tuple(options.version[1:]), tuple(options.reads))

    def parts(self, making: Making) -> dict[str, bytes]:
        options = _options(making.package)
        values = {**making.values, "object": _OBJECT, "headers": str(clang.headers())}
        arguments = [filled(part, values) for part in options.command[1:]]
        program = _program(making.package, "command")
        sources = {name: making.package.files[name] for name in options.sources}
        request = _request(program, arguments, options.reads)
        try:
            made = making.servers.made(making.server, request, [_OBJECT], sources)
        except CandidateError as error:
            raise CandidateError(error.outcome, f"{program.name}: {error.message}") from None
        text = "\n".join([" ".join([program.name, *arguments]), ""]).encode()
        return {"0.o": made[_OBJECT], "loopnest": text + b"\n".join(sources.values())}


def _request(program: Path, arguments: list[str], reads: list[str]) -> dict[str, Any]:
    needs = [*SYSTEM, str(program.parent), str(clang.headers()), *reads]
    return {"program": [str(program), *arguments], "reads": needs, "starts_programs": True}


def _options(package: Package) -> CommandOptions:
    options = package.manifest.build
    assert isinstance(options, CommandOptions)  # noqa: S101 - its table is of this kind
    return options


def _program(package: Package, key: str) -> Path:
    """The program that ``build.KEY`` begins with: on PATH, or ``zig``, which hvxtune brings."""
    name = getattr(_options(package), key)[0]
    found = str(find_toolchain().zig) if name == _ZIG else shutil.which(name)
    if found is None or ("/" in name and not name.startswith("/")):
        raise misfit(
            package,
            key,
            f"the program '{name}' is not on this machine",
            "a program on PATH, an absolute path, or zig, which is clang as `zig clang`",
            "install it, or correct its name",
        )
    return Path(found).resolve()


@lru_cache(maxsize=64)
def _version(program: str, arguments: tuple[str, ...], reads: tuple[str, ...]) -> str:
    """The version by the compiler's own words, asked once a process and contained."""
    servers = CompileServers(1, TIME_LIMIT_S, MEMORY_LIMIT_BYTES)
    try:
        with servers.one() as server:
            request = _request(Path(program), list(arguments), list(reads))
            made = servers.made(server, request, ["log"])
    except CandidateError as error:
        why = error.message if error.outcome is not Outcome.TIMEOUT else "it does not end"
        raise UserError(
            f"build.version: {Path(program).name} {' '.join(arguments)} fails: {why}",
            accepted="a command that prints the compiler's version",
        ) from None
    finally:
        servers.close()
    said = " ".join(made["log"].decode(errors="replace").split())
    return f"{program} {said[:_MOST_VERSION_CHARACTERS]}"
