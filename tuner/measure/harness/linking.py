"""An object on its way into a harness: screened, then linked; refusals say why in plain words."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.codegen.toolchain import find_toolchain, first_diagnostic
from tuner.errors import CandidateError
from tuner.plain_text import plain
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome


@contextlib.contextmanager
def linked_file(artifact: Artifact, harness: Path, options: Sequence[str]) -> Iterator[int]:
    """Descriptor of ``artifact`` linked with ``harness``; gone when the context ends.

    The harness calls the candidate ``hvxtune_entry``. Raises ``CandidateError`` with outcome
    ``infeasible`` for an object that cannot be linked, lacks its entry symbol, or needs functions
    the harness does not have.
    """
    # Files in memory: a killed process leaves nothing behind.
    with _memory_file("candidate") as candidate, _memory_file("program") as program:
        os.pwrite(candidate, artifact.object_bytes, 0)
        try:
            done = find_toolchain().lld(
                [
                    *("--gc-sections", "--threads=1", *options),
                    f"--defsym=hvxtune_entry={artifact.symbol}",
                    *(harness, path_of(candidate), "-o", "-"),
                ],
                output=program,
                inputs=(candidate,),
            )
        except subprocess.TimeoutExpired:
            raise CandidateError(
                Outcome.INFEASIBLE,
                "the object cannot be linked: the linker does not end",
            ) from None
        if done.returncode:
            raise CandidateError(Outcome.INFEASIBLE, _link_failure(done.stderr, artifact.symbol))
        yield program


def path_of(descriptor: int) -> str:
    """Where a process that inherits ``descriptor`` finds the file."""
    return f"/proc/self/fd/{descriptor}"


def contents(descriptor: int) -> bytes:
    """All bytes of the file behind ``descriptor``."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


@contextlib.contextmanager
def _memory_file(name: str) -> Iterator[int]:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _link_failure(diagnostics: str, symbol: str) -> str:
    if f"symbol not found: {symbol}" in diagnostics:
        return f"the object does not define its entry symbol {symbol}"
    missing = re.findall(r"undefined symbol: (\S+)", diagnostics)
    if missing:
        return f"the object needs {', '.join(dict.fromkeys(missing))}, which the harness lacks"
    reason = first_diagnostic(diagnostics).removeprefix("ld.lld: error: ")
    without_files = re.sub(r"/proc/self/fd/\d+:?\s*", "", reason)
    return f"the object cannot be linked: {without_files}"


FindLacking = Callable[[NDArray[np.uint32]], Iterator[tuple[int, str, str]]]
"""Finds instructions among words of code: their position, name, and who lacks them."""

MAX_OBJECT_BYTES = 1 << 26
"""The largest file that compilers of candidates may write (tuner/codegen)."""
MAX_ALIGNMENT_BYTES = 1 << 16
"""Of a section: one page of Hexagon Linux. A larger one would make the linked file as large."""
MAX_MEMORY_BYTES = 1 << 26
"""Of a candidate's code, constants and variables; scratch memory comes from the heap."""

MAX_SECTIONS, MAX_SYMBOLS = 10_000, 100_000
"""Far more than compilers make for a kernel; reading more would take seconds."""

_ARCH_BITS = 0x7FFF
"""Of ``e_flags``: the arch in hexadecimal digits, 0x66 for v66; above it the tiny core's bit
(EF_HEXAGON_MACH in LLVM's BinaryFormat/ELF.h)."""

_REFUSED_SECTIONS = {
    "SHT_INIT_ARRAY": "functions to run before it is called",
    "SHT_FINI_ARRAY": "functions to run at exit",
    "SHT_PREINIT_ARRAY": "functions to run before it is called",
    "SHT_DYNAMIC": "a dynamic section",
    "SHT_DYNSYM": "dynamic symbols",
}
_REFUSED_SYMBOLS = {"STT_LOOS": "is chosen at load time", "STT_TLS": "is thread-local"}
"""pyelftools calls STT_GNU_IFUNC by the number it shares, STT_LOOS."""
_REFUSED_FLAGS = {0x400: "thread-local data", 0x800: "compressed sections"}
"""SHF_TLS and SHF_COMPRESSED of the ELF specification."""
_ALLOCATED, _EXECUTABLE = 0x2, 0x4
"""SHF_ALLOC and SHF_EXECINSTR."""


def screen(object_bytes: bytes, arch: str, lacking: FindLacking | None) -> None:
    """Returns if an object for ``arch`` (``v66``) may be linked and run.

    ``lacking`` finds instructions that what runs it lacks; a DSP (``None``) has all of its arch.
    Raises ``CandidateError`` with outcome ``infeasible`` for anything but a relocatable Hexagon
    object, and for one compiled for a newer arch, asks a loader for more than to be loaded,
    takes too much memory, or holds a lacking instruction, which is named. About 2 ms.
    """
    try:
        elf = relocatable(object_bytes)
        _refuse_newer_arch(int(elf["e_flags"]), arch)
        _refuse_more("sections", elf.num_sections(), MAX_SECTIONS)
        sections = list(elf.iter_sections())
        for section in sections:
            _refuse_section(section)
        _refuse_size(sections)
        for section in sections:
            if section["sh_type"] == "SHT_SYMTAB":
                _refuse_symbols(section)
        if lacking is not None:
            _refuse_instructions(sections, lacking)
    except CandidateError as error:
        raise CandidateError(error.outcome, plain(error.message)) from None
    except Exception as error:  # noqa: BLE001 - whatever a parser makes of a hostile file
        raise CandidateError(
            Outcome.INFEASIBLE, f"the object cannot be read: {plain(str(error)[:200])}"
        ) from None


def relocatable(object_bytes: bytes) -> Any:
    """The object as pyelftools sees it.

    Raises ``CandidateError`` with outcome ``infeasible`` if it is not a Hexagon object.
    """
    _refuse_more("bytes", len(object_bytes), MAX_OBJECT_BYTES)
    elf = open_elf(object_bytes)
    if elf is None or elf["e_machine"] != "EM_QDSP6" or elf["e_type"] != "ET_REL":
        raise CandidateError(Outcome.INFEASIBLE, "the object is not a relocatable Hexagon ELF file")
    return elf


def open_elf(data: bytes) -> Any:
    """The file as pyelftools sees it; ``None`` if it is not an ELF file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        return ELFFile(io.BytesIO(data))
    except ELFError:
        return None


def _refuse_more(what: str, count: int, most: int) -> None:
    if count > most:
        raise CandidateError(
            Outcome.INFEASIBLE, f"the object has {count} {what}, at most {most} are accepted"
        )


def _refuse_newer_arch(flags: int, arch: str) -> None:
    made_for = f"{flags & _ARCH_BITS:x}"
    if not made_for.isdecimal() or int(made_for) > int(arch.removeprefix("v")):
        raise CandidateError(
            Outcome.INFEASIBLE, f"the object is made for v{made_for}, the target is {arch}"
        )


def _refuse_section(section: Any) -> None:
    held = _REFUSED_SECTIONS.get(section["sh_type"])
    if held is None:
        held = next((n for bit, n in _REFUSED_FLAGS.items() if section["sh_flags"] & bit), None)
    if held is not None:
        raise CandidateError(Outcome.INFEASIBLE, f"the object has {held} ({section.name})")
    if section["sh_addralign"] > MAX_ALIGNMENT_BYTES:
        raise CandidateError(
            Outcome.INFEASIBLE,
            f"section {section.name} wants an alignment of {section['sh_addralign']} bytes, "
            f"at most {MAX_ALIGNMENT_BYTES} is available",
        )


def _refuse_size(sections: list[Any]) -> None:
    # With its alignment each, as many small ones can grow just as much as one large one.
    memory = sum(
        section["sh_size"] + section["sh_addralign"]
        for section in sections
        if section["sh_flags"] & _ALLOCATED
    )
    if memory > MAX_MEMORY_BYTES:
        raise CandidateError(
            Outcome.INFEASIBLE,
            f"code and variables take {memory} bytes, at most {MAX_MEMORY_BYTES} are available",
        )


def _refuse_symbols(table: Any) -> None:
    _refuse_more("symbols", table.num_symbols(), MAX_SYMBOLS)
    common = 0
    for symbol in table.iter_symbols():
        trait = _REFUSED_SYMBOLS.get(symbol["st_info"]["type"])
        if trait is not None:
            raise CandidateError(Outcome.INFEASIBLE, f"symbol {symbol.name} {trait}")
        if symbol["st_shndx"] == "SHN_COMMON":  # the value is the alignment
            common += symbol["st_size"] + symbol["st_value"]
    if common > MAX_MEMORY_BYTES:
        raise CandidateError(
            Outcome.INFEASIBLE,
            f"common variables take {common} bytes, at most {MAX_MEMORY_BYTES} are available",
        )


def _refuse_instructions(sections: list[Any], lacking: FindLacking) -> None:
    code = {
        index: section.data()
        for index, section in enumerate(sections)
        if section["sh_flags"] & _EXECUTABLE and section["sh_type"] == "SHT_PROGBITS"
    }
    # All sections at once: most objects have many small ones, and the table is long.
    whole = b"".join(data[: len(data) // 4 * 4] for data in code.values())
    for position, instruction, who in lacking(np.frombuffer(whole, "<u4")):
        offset = 4 * position
        for index, data in code.items():  # noqa: B007 - the one it stops at is wanted
            if offset < len(data) // 4 * 4:
                break
            offset -= len(data) // 4 * 4
        place = _place(index, offset, sections) or sections[index].name
        raise CandidateError(
            Outcome.INFEASIBLE,
            f"uses {instruction} in {place}, which {who} does not implement",
        )


def _place(index: int, offset: int, sections: list[Any]) -> str:
    """The function at ``offset`` of section number ``index``."""
    below = [
        (symbol["st_value"], symbol.name)
        for table in sections
        if table["sh_type"] == "SHT_SYMTAB"
        for symbol in table.iter_symbols()
        if symbol["st_shndx"] == index and symbol["st_value"] <= offset and symbol.name
    ]
    return str(max(below)[1]) if below else ""
