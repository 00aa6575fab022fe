"""Programs out of C++ Generators, by the machine's own C++ compiler.

The wheel's ``libHalide.so`` speaks the C++ of libstdc++: strings cross its interface. ``zig c++``
has libc++, whose strings are others, so a Generator takes g++, or a clang++ with libstdc++.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tuner.codegen.confinement import SYSTEM
from tuner.codegen.halide.servers import CompileServers
from tuner.codegen.requirements import reinstall
from tuner.codegen.toolchain import first_diagnostic
from tuner.errors import CandidateError, StoreError, ToolchainError, UserError
from tuner.identity import canonical_json, digest_of_bytes
from tuner.machine.whole_files import written_whole
from tuner.paths import cached
from tuner.records.outcome import Outcome

_COMPILERS = ("g++", "clang++")
_STANDARD = "-std=c++17"
_BUILD_S = 120.0
"""Of processor time; a Generator takes four seconds, most of them for ``Halide.h``."""
_MEMORY_BYTES = 4 << 30
_FOLDER = "generators"
PROGRAM, LIBRARY = "made.gen", "made.so"
_OLDER = Path(__file__).with_name("older")
"""The folder of a ``Halide.h`` that has names of older ones, too."""
INTEGERS = "_integers"
_INTEGERS = Path(__file__).with_name("integers.cpp")
_NO_GENERATE = "Expected a generate() method"
"""What ``Halide.h`` says of a class without one."""
_ELF = b"\x7fELF"
_EXECUTABLE = 0o755
"""A confined process is another user, who runs the program and may not change it."""


@dataclass(frozen=True)
class CppCompiler:
    """A C++ compiler of this machine. ``version`` names it."""

    path: Path
    version: str


@cache
def find_compiler() -> CppCompiler:
    """The first one installed; ``ToolchainError`` with the command that installs one."""
    for name in _COMPILERS:
        found = shutil.which(name)
        if found is None:
            continue
        done = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode == 0:
            return CppCompiler(Path(found).resolve(), done.stdout.partition("\n")[0])
    raise ToolchainError(
        "C++ Generators need a C++ compiler with libstdc++, and none is here",
        accepted=" or ".join(_COMPILERS),
        next_step="run `apt-get install g++`",
    )


@cache
def halide_wheel() -> Path:
    """The folder of the pinned Halide: ``include`` and ``lib64`` are in it."""
    spec = importlib.util.find_spec("halide")
    if spec is None or spec.origin is None:
        raise ToolchainError(
            "the Python package 'halide' is missing", next_step=reinstall("halide")
        )
    return Path(spec.origin).parent


def halide_version() -> str:
    """That of the pinned wheel."""
    return version("halide")


@dataclass(frozen=True)
class CppSources:
    """Sources of one program: ``compiled`` are those of ``files`` besides headers."""

    files: Mapping[str, bytes]
    compiled: Sequence[str]

    def with_integers(self, generator: str) -> CppSources:
        """With another Generator, ``GENERATOR_integers``, that has what ``generator`` computes with
        floats from no image as inputs: tables and scalars of integers."""
        name, text = f"{generator}{INTEGERS}.cpp", _INTEGERS.read_text()
        made = text.replace("GENERATOR", generator).encode()
        return CppSources({**self.files, name: made}, (*self.compiled, name))

    def program(self) -> Path:
        """The program, out of the cache or built now in a contained process.

        ``UserError`` with the compiler's first diagnostic; ``ToolchainError`` without a compiler.
        """
        library = halide_wheel() / "lib64"
        link = [
            *("-Wl,--whole-archive", str(library / "libHalide_GenGen.a"), "-Wl,--no-whole-archive"),
            *(str(library / "libHalide.so"), "-lpthread", "-ldl"),
        ]
        return _built(PROGRAM, self, [], link)


@cache
def listing_library() -> Path:
    """``listing.cpp`` as a library to be loaded before a program's own (LD_PRELOAD)."""
    source = Path(__file__).with_name("listing.cpp")
    return _built(
        LIBRARY,
        CppSources({source.name: source.read_bytes()}, [source.name]),
        ["-fPIC"],
        ["-shared"],
    )


def ready_program(name: str, content: bytes) -> Path:
    """A program that was built elsewhere, against the same Halide: the file ``name``."""
    if not content.startswith(_ELF) or b"libHalide.so" not in content:
        raise UserError(
            f"{name} is not a program of Generators",
            accepted=f"an ELF program for {platform.machine()} that loads libHalide.so of Halide "
            f"{version('halide')}",
            next_step="link it as docs/packages.md says, or name its sources",
        )
    place = cached(_FOLDER) / f"{digest_of_bytes(content)}.gen"
    if not place.exists():
        _keep(place, content)
    return place


def _built(kind: str, sources: CppSources, options: Sequence[str], link: Sequence[str]) -> Path:
    compiler, wheel = find_compiler(), halide_wheel()
    command = [str(compiler.path), _STANDARD, "-O1", "-w", "-Wfatal-errors", *options]
    key = {
        "command": [*command, kind],
        "compiler": compiler.version,
        "halide": version("halide"),
        "older": digest_of_bytes((_OLDER / "Halide.h").read_bytes()),
        "compiled": list(sources.compiled),
        "files": {name: digest_of_bytes(data) for name, data in sources.files.items()},
    }
    place = cached(_FOLDER) / f"{digest_of_bytes(canonical_json(key).encode())}{Path(kind).suffix}"
    if place.exists():
        return place
    folders = (_OLDER, wheel / "include", wheel / "share/tools")
    includes = ["-I.", *(part for folder in folders for part in ("-isystem", str(folder)))]
    request = {
        "program": [*command, *includes, *sources.compiled, "-o", kind, *link],
        "reads": [*SYSTEM, str(wheel), str(_OLDER)],
        "environment": {"PATH": "/usr/bin:/bin", "TMPDIR": ".", "LC_ALL": "C"},
        "starts_programs": True,
    }
    servers = CompileServers(1, _BUILD_S, _MEMORY_BYTES)
    try:
        with servers.one() as server:
            made = servers.made(server, request, [kind], sources.files)
    except CandidateError as error:
        raise _refusal(error, sources) from None
    finally:
        servers.close()
    _keep(place, made[kind])
    return place


def _refusal(error: CandidateError, sources: CppSources) -> UserError:
    names = ", ".join(sources.compiled)
    if error.outcome is Outcome.TIMEOUT:
        return UserError(
            f"compiling {names} takes more than {_BUILD_S:.0f} s", next_step="make it smaller"
        )
    if _NO_GENERATE in error.message:
        return UserError(
            f"a Generator in {names} has no generate(): build() is of older Halides",
            accepted="void generate(), with outputs as members, as in Output<Buffer<uint8_t, 2>>",
            next_step="assign what build() returns to such members",
        )
    return UserError(
        f"{names} does not compile: {first_diagnostic(error.message)}",
        accepted=f"C++17 for Halide {version('halide')}",
        next_step="compile it by hand against the wheel's include folder to see all of it",
    )


def _keep(place: Path, content: bytes) -> None:
    try:
        with written_whole(place) as file:
            file.write(content)
            Path(file.name).chmod(_EXECUTABLE)
    except OSError as error:
        raise StoreError(
            f"cannot write {place}: {error.strerror}", next_step="free space or permissions there"
        ) from None
