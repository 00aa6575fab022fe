"""Harness and candidate linked into one program, at addresses the plugin knows."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tuner.candidate import Artifact
from tuner.codegen.toolchain import built, find_toolchain, first_diagnostic
from tuner.errors import CandidateError
from tuner.measure.harness import LINKER_SCRIPT, linux_user_harness
from tuner.outcome import Outcome

WINDOW_BEGIN = 0x00010000
"""The packet that calls the candidate: harness/program.ld puts it first."""
WINDOW_END = WINDOW_BEGIN + 4
"""The packet after it, which the candidate returns to (harness/call.S)."""
CANDIDATE_BEGIN = 0x00100000
"""Code from here on is the candidate's (harness/program.ld)."""


@dataclass(frozen=True)
class Program:
    """A linked candidate: an executable in memory, and the size of the candidate's code."""

    descriptor: int
    code_bytes: int

    @property
    def path(self) -> str:
        """Where a process that inherits the descriptor finds the executable."""
        return _path_of(self.descriptor)

    def place(self, address: int) -> str:
        """``symbol+offset`` of a code address, for messages."""
        elf = _open_elf(_contents(self.descriptor))
        table = elf.get_section_by_name(".symtab") if elf else None
        symbols = table.iter_symbols() if table else ()
        below = [
            (symbol["st_value"], symbol.name)
            for symbol in symbols
            if symbol.name not in ("", "hvxtune_entry") and symbol["st_value"] <= address
        ]
        if not below:
            return f"{address:#x}"
        start, name = max(below)
        return f"{name}+{address - start:#x}" if address > start else name


@contextlib.contextmanager
def linked(artifact: Artifact, arch: str) -> Iterator[Program]:
    """``artifact`` linked with the harness for ``arch`` (``v66``); gone when the context ends.

    Raises ``CandidateError`` with outcome ``infeasible`` for an object that is not Hexagon code,
    lacks its entry symbol, or needs functions the harness does not have.
    """
    elf = _open_elf(artifact.object_bytes)
    if elf is None or elf["e_machine"] != "EM_QDSP6" or elf["e_type"] != "ET_REL":
        raise CandidateError(Outcome.INFEASIBLE, "the object is no relocatable Hexagon ELF file")
    harness = built(linux_user_harness(arch))
    # Files in memory: a killed process leaves nothing behind.
    with _memory_file("candidate") as candidate, _memory_file("program") as program:
        os.pwrite(candidate, artifact.object_bytes, 0)
        done = find_toolchain().lld(
            [
                *("-static", "--gc-sections", "--threads=1", "-z", "max-page-size=65536"),
                f"--script={LINKER_SCRIPT}",
                f"--defsym=hvxtune_entry={artifact.symbol}",
                *(harness, _path_of(candidate), "-o", "-"),
            ],
            output=program,
            inputs=(candidate,),
        )
        if done.returncode:
            raise CandidateError(Outcome.INFEASIBLE, _link_failure(done.stderr, artifact.symbol))
        code = _open_elf(_contents(program)).get_section_by_name(".text")
        yield Program(program, code["sh_size"])


@contextlib.contextmanager
def _memory_file(name: str) -> Iterator[int]:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _contents(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _open_elf(data: bytes) -> Any:
    """The file as pyelftools sees it; ``None`` if it is no ELF file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        return ELFFile(io.BytesIO(data))
    except ELFError:
        return None


def _link_failure(diagnostics: str, symbol: str) -> str:
    if f"symbol not found: {symbol}" in diagnostics:
        return f"the object does not define its entry symbol {symbol}"
    missing = re.findall(r"undefined symbol: (\S+)", diagnostics)
    if missing:
        return f"the object needs {', '.join(dict.fromkeys(missing))}, which the harness lacks"
    reason = first_diagnostic(diagnostics).removeprefix("ld.lld: error: ")
    without_files = re.sub(r"/proc/self/fd/\d+:?\s*", "", reason)
    return f"the object cannot be linked: {without_files}"
