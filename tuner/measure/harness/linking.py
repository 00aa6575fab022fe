"""Links a candidate with a harness: files in memory, and what the linker says in plain words."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.codegen.toolchain import find_toolchain, first_diagnostic
from tuner.errors import CandidateError
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
                "the object cannot be linked: the linker does not come to an end",
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
