"""Harness and candidate linked into one program, at addresses the plugin knows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.codegen.toolchain import built
from tuner.errors import CandidateError
from tuner.measure.harness import LINKER_SCRIPT, linux_user_harness
from tuner.measure.harness.linking import contents, linked_file, path_of
from tuner.measure.qemu.memory_map import CANDIDATE_BEGIN
from tuner.measure.qemu.screen import open_elf, relocatable
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome


@dataclass(frozen=True)
class Program:
    """A linked candidate: an executable in memory, and the size of the candidate's code, which
    begins at ``CANDIDATE_BEGIN``."""

    descriptor: int
    code_bytes: int

    @property
    def path(self) -> str:
        """Where a process that inherits the descriptor finds the executable."""
        return path_of(self.descriptor)

    def functions(self) -> dict[int, str]:
        """The functions of candidate and harness by their first address."""
        elf = open_elf(contents(self.descriptor))
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
    options = (
        *("-static", "-z", "max-page-size=65536"),
        "--orphan-handling=error",  # every section lies where program.ld says
        f"--script={LINKER_SCRIPT}",
    )
    with linked_file(artifact, built(linux_user_harness(arch)), options) as program:
        yield Program(program, _code_bytes(contents(program), artifact.symbol))


def _code_bytes(program: bytes, symbol: str) -> int:
    """Size of the candidate's code; refuses a ``symbol`` that lies elsewhere, as absolute ones."""
    elf = open_elf(program)
    code = elf.get_section_by_name(".text")
    size = int(code["sh_size"]) if code else 0
    entries = elf.get_section_by_name(".symtab").get_symbol_by_name("hvxtune_entry") or []
    if not any(0 <= entry["st_value"] - CANDIDATE_BEGIN < size for entry in entries):
        raise CandidateError(Outcome.INFEASIBLE, f"the entry symbol {symbol} is no function")
    return size
