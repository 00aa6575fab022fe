"""Harness and candidate linked into one program, at addresses the plugin knows."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.candidate import Artifact
from tuner.codegen.toolchain import built, find_toolchain, first_diagnostic
from tuner.errors import CandidateError
from tuner.measure.harness import LINKER_SCRIPT, linux_user_harness
from tuner.measure.qemu.memory_map import CANDIDATE_BEGIN
from tuner.measure.qemu.screen import open_elf, relocatable
from tuner.outcome import Outcome


@dataclass(frozen=True)
class Program:
    """A linked candidate: an executable in memory, and the size of the candidate's code, which
    begins at ``CANDIDATE_BEGIN``."""

    descriptor: int
    code_bytes: int

    @property
    def path(self) -> str:
        """Where a process that inherits the descriptor finds the executable."""
        return _path_of(self.descriptor)

    def functions(self) -> dict[int, str]:
        """The functions of candidate and harness by their first address."""
        elf = open_elf(_contents(self.descriptor))
        table = elf.get_section_by_name(".symtab") if elf else None
        return {
            symbol["st_value"]: symbol.name
            for symbol in (table.iter_symbols() if table else ())
            if symbol.name not in ("", "hvxtune_entry")
            and symbol["st_info"]["type"] in ("STT_FUNC", "STT_NOTYPE")
        }

    def place(self, address: int) -> str:
        """``symbol+offset`` of a code address, for messages."""
        functions = self.functions()
        start = max((start for start in functions if start <= address), default=None)
        if start is None:
            return f"{address:#x}"
        name = functions[start]
        return f"{name}+{address - start:#x}" if address > start else name


@contextlib.contextmanager
def linked(artifact: Artifact, arch: str) -> Iterator[Program]:
    """``artifact`` linked with the harness for ``arch`` (``v66``); gone when the context ends.

    Raises ``CandidateError`` with outcome ``infeasible`` for an object that is not Hexagon code,
    lacks its entry symbol, or needs functions the harness does not have.
    """
    relocatable(artifact.object_bytes)
    harness = built(linux_user_harness(arch))
    # Files in memory: a killed process leaves nothing behind.
    with _memory_file("candidate") as candidate, _memory_file("program") as program:
        os.pwrite(candidate, artifact.object_bytes, 0)
        try:
            done = find_toolchain().lld(
                [
                    *("-static", "--gc-sections", "--threads=1", "-z", "max-page-size=65536"),
                    "--orphan-handling=error",  # every section lies where program.ld says
                    f"--script={LINKER_SCRIPT}",
                    f"--defsym=hvxtune_entry={artifact.symbol}",
                    *(harness, _path_of(candidate), "-o", "-"),
                ],
                output=program,
                inputs=(candidate,),
            )
        except subprocess.TimeoutExpired:
            raise CandidateError(
                Outcome.INFEASIBLE,
                "the object cannot be linked: the linker does not come to an end",
            ) from None
        if done.returncode:
            raise CandidateError(Outcome.INFEASIBLE, _link_failure(done.stderr, artifact.symbol))
        yield Program(program, _code_bytes(_contents(program), artifact.symbol))


def _code_bytes(program: bytes, symbol: str) -> int:
    """Size of the candidate's code; refuses a ``symbol`` that lies elsewhere, as absolute ones."""
    elf = open_elf(program)
    code = elf.get_section_by_name(".text")
    size = int(code["sh_size"]) if code else 0
    entries = elf.get_section_by_name(".symtab").get_symbol_by_name("hvxtune_entry") or []
    if not any(0 <= entry["st_value"] - CANDIDATE_BEGIN < size for entry in entries):
        raise CandidateError(Outcome.INFEASIBLE, f"the entry symbol {symbol} is no function")
    return size


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


def _link_failure(diagnostics: str, symbol: str) -> str:
    if f"symbol not found: {symbol}" in diagnostics:
        return f"the object does not define its entry symbol {symbol}"
    missing = re.findall(r"undefined symbol: (\S+)", diagnostics)
    if missing:
        return f"the object needs {', '.join(dict.fromkeys(missing))}, which the harness lacks"
    reason = first_diagnostic(diagnostics).removeprefix("ld.lld: error: ")
    without_files = re.sub(r"/proc/self/fd/\d+:?\s*", "", reason)
    return f"the object cannot be linked: {without_files}"
