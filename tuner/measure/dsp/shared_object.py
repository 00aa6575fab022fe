"""Shared objects for a DSP: candidates linked with the harness, and the driver that loads them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache

import numpy as np

from tuner.codegen.toolchain import built, find_toolchain, first_diagnostic
from tuner.errors import CandidateError, InternalError
from tuner.measure.harness import DSP_EXPORTS, dsp_driver, dsp_harness
from tuner.measure.harness.linking import contents, linked_file, open_elf, relocatable, screen
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome

_OPTIONS = (
    *("-shared", "-Bsymbolic", "-z", "now", "-z", "defs", "--hash-style=sysv"),
    *("-z", "max-page-size=65536", "--strip-debug"),
)
_ALLOCATED, _EXECUTABLE = 0x2, 0x4
"""SHF_ALLOC and SHF_EXECINSTR."""
_TRAP_MASK, _TRAP0, _TRAP1 = 0xFFC00000, 0x54000000, 0x54800000
"""trap0(#u8) and trap1(#u8) by class and opcode (Programmer's Reference Manual, system); the bits
of _PARSE are zero in a word that holds two instructions instead."""
_PARSE = 0xC000


@dataclass(frozen=True)
class SharedObject:
    """What the DSP loads. ``code_bytes`` is the candidate's own code."""

    content: bytes
    code_bytes: int


def shared_object(artifact: Artifact, arch: str) -> SharedObject:
    """``artifact`` linked to run on the DSP of a phone of ``arch``. It imports nothing.

    Raises ``CandidateError`` with outcome ``infeasible`` for an object that cannot be loaded
    there: one for another machine or arch, that is not position-independent, needs functions the
    harness lacks, or makes system calls.
    """
    screen(artifact.object_bytes, arch, None)
    code_bytes = _code_bytes(artifact.object_bytes)
    options = (*_OPTIONS, f"--version-script={DSP_EXPORTS}")
    with linked_file(artifact, built(dsp_harness(arch)), options) as program:
        content = contents(program)
    _refuse_entry_elsewhere(content, artifact.symbol)
    return SharedObject(content, code_bytes)


def _code_bytes(object_bytes: bytes) -> int:
    total = 0
    for section in relocatable(object_bytes).iter_sections():
        if section["sh_flags"] & _EXECUTABLE and section["sh_flags"] & _ALLOCATED:
            data = section.data()
            total += len(data)
            words = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
            kinds = words & _TRAP_MASK
            if np.any(((kinds == _TRAP0) | (kinds == _TRAP1)) & (words & _PARSE != 0)):
                raise CandidateError(
                    Outcome.INFEASIBLE,
                    f"section {section.name} makes system calls: nothing contains them on a phone",
                )
    return total


def _refuse_entry_elsewhere(content: bytes, symbol: str) -> None:
    elf = open_elf(content)
    code = elf.get_section_by_name(".text")
    entries = elf.get_section_by_name(".symtab").get_symbol_by_name("hvxtune_entry") or []
    begin, size = int(code["sh_addr"]), int(code["sh_size"])
    if not any(0 <= entry["st_value"] - begin < size for entry in entries):
        raise CandidateError(Outcome.INFEASIBLE, f"the entry symbol {symbol} is no function")


@cache
def driver(arch: str) -> bytes:
    """The shared object the phone's tool loads and calls, for ``arch``."""
    try:
        done = subprocess.run(
            [
                *(find_toolchain().zig, "ld.lld", "-shared", "-Bsymbolic", "-z", "now"),
                *("--hash-style=sysv", "-z", "max-page-size=65536", "--strip-debug"),
                *("-soname", "driver.so", built(dsp_driver(arch)), "-o", "-"),
            ],
            capture_output=True,
            env={},
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InternalError("the driver's linker does not come to an end") from None
    if done.returncode:
        raise InternalError(f"the driver: {first_diagnostic(done.stderr.decode())}")
    return done.stdout
