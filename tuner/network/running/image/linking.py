"""The program for the DSP: objects of many functions, a table of them, and what serves calls."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.codegen.toolchain import NativePart, built, find_toolchain, first_diagnostic
from tuner.errors import CandidateError, InternalError
from tuner.measure.harness import HALIDE_BUFFER, LINKER_SCRIPT, serving_harness
from tuner.measure.harness.linking import contents, open_elf, screen
from tuner.measure.qemu.simulation import Program
from tuner.measure.qemu.simulator import find_simulator, lacked_by
from tuner.packages.symbols import with_own_names
from tuner.problem.buffers import BufferSpec
from tuner.problem.target import Target
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome

_FOLDER = Path(__file__).parent
_HEADERS = tuple(_FOLDER / f"{name}.h" for name in ("hvxtune_network", "messages"))
SERVING = tuple(_FOLDER / f"{name}.c" for name in ("serve", "buffers"))
SERVING_HEADERS = (
    *_HEADERS,
    *(_FOLDER / f"{name}.h" for name in ("serve", "buffers")),
    HALIDE_BUFFER,
)
COPY = _FOLDER / "copy.h"
HOST = NativePart(
    "network-host",
    "host",
    tuple(_FOLDER / f"{name}.c" for name in ("hvxtune_network", "fastrpc_stand_in")),
    _HEADERS,
    flags=("-std=c99", "-pedantic"),
)
"""The host's side as a library, with pipes in place of FastRPC."""
REPACK = 0
"""The function that copies a tensor from one storage to another; those of a network follow it."""
_REPACK_SYMBOL = "hvxtune_repack"
_ELEMENT_BYTES = 1
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Function:
    """An object, and the buffers that its function takes."""

    artifact: Artifact
    buffers: tuple[BufferSpec, ...]


@contextmanager
def linked_image(functions: Sequence[Function], target: Target) -> Iterator[Program]:
    """The program whose function ``n + 1`` is that of ``functions[n]``; gone when the context
    ends.

    Raises ``CandidateError`` with outcome ``infeasible`` for an object that cannot be linked or
    run.
    """
    program = os.memfd_create("image", os.MFD_CLOEXEC)
    try:
        with tempfile.TemporaryDirectory(prefix="hvxtune-image-") as folder:
            _link(functions, target, Path(folder), program)
        code = open_elf(contents(program)).get_section_by_name(".text")
        yield Program(program, int(code["sh_size"]))
    finally:
        os.close(program)


def _link(functions: Sequence[Function], target: Target, folder: Path, program: int) -> None:
    lacking = lacked_by(find_simulator().release)
    parts = (built(_repack(target.arch)), built(_fetch(target.arch)), _harness(target))
    objects = [_table(functions, target, folder), *parts]
    for number, function in enumerate(functions):
        artifact = function.artifact
        screen(artifact.object_bytes, target.arch, lacking)
        objects.append(folder / f"{number}.o")
        objects[-1].write_bytes(with_own_names(artifact.object_bytes, artifact.symbol))
    options = ("--gc-sections", "--threads=1", "-static", "-z", "max-page-size=65536")
    layout = ("--orphan-handling=error", f"--script={LINKER_SCRIPT}")
    done = find_toolchain().lld([*options, *layout, *objects, "-o", "-"], output=program)
    if done.returncode:
        told = first_diagnostic(done.stderr).replace(f"{folder}/", "")
        raise CandidateError(Outcome.INFEASIBLE, f"the image cannot be linked: {told}")


def _harness(target: Target) -> Path:
    return built(
        serving_harness(target.arch, (*SERVING, _FOLDER / "linux_user.c"), SERVING_HEADERS)
    )


def _repack(arch: str) -> NativePart:
    headers = (*_HEADERS, COPY, HALIDE_BUFFER)
    return NativePart(f"repack-{arch}", "hexagon", (_FOLDER / "repack.c",), headers, arch=arch)


def _fetch(arch: str) -> NativePart:
    return NativePart(f"fetch-{arch}", "hexagon", (_FOLDER / "fetch.S",), arch=arch)


def _table(functions: Sequence[Function], target: Target, folder: Path) -> Path:
    """The table of functions (serve.h), compiled."""
    rows = [(_REPACK_SYMBOL, [_ELEMENT_BYTES] * 2)]
    rows += [
        (function.artifact.symbol, [spec.payload_bytes for spec in function.buffers])
        for function in functions
    ]
    names = [name for name, _ in rows]
    if len(set(names)) < len(names) or not all(map(_IDENTIFIER.fullmatch, names)):
        raise InternalError(f"functions of one image are called {', '.join(names)}")
    declared = "".join(f"int {name}(void);\n" for name in names)
    sizes = "".join(
        f"static const uint32_t bytes_{number}[] = {{{', '.join(map(str, bytes_))}}};\n"
        for number, (_, bytes_) in enumerate(rows)
    )
    entries = "".join(
        f"    {{{name}, {len(bytes_)}, bytes_{number}}},\n"
        for number, (name, bytes_) in enumerate(rows)
    )
    source = folder / "table.c"
    source.write_text(
        '#include "serve.h"\n'
        f"{declared}{sizes}"
        f"const struct serve_function serve_functions[] = {{\n{entries}}};\n"
        f"const uint32_t serve_function_count = {len(rows)};\n"
        f"const uint32_t serve_alignment_bytes = {target.vector_alignment_bytes};\n"
        f"const uint32_t serve_vtcm_bytes = {target.vtcm_bytes};\n"
    )
    made = folder / "table.o"
    flags = NativePart("table", "hexagon", (), arch=target.arch).compiler_flags()
    find_toolchain().cc([*flags, f"-I{_FOLDER}", "-c", source, "-o", made], folder)
    return made
