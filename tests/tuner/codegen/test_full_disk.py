"""Compilers that have no room to write: the machine's fault, not the candidate's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tuner.codegen.halide import servers
from tuner.codegen.halide.servers import CompileServer, CompileServers
from tuner.errors import CandidateError, ToolchainError


class Ending:
    """A compile server whose child ends so, and writes nothing."""

    def __init__(self, folder: Path, how: str, number: int) -> None:
        self.directory = folder
        self.end = how, number

    def run(self, request: Any, given: Any) -> tuple[str, int]:
        return self.end


@pytest.mark.parametrize(("how", "number"), [("exit", 1), ("signal", 7)])
def test_a_compilation_that_fails_for_want_of_room_is_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, number: int
) -> None:
    (tmp_path / "log").write_text("LLVM ERROR: IO failure on output stream")
    server = cast(CompileServer, Ending(tmp_path, how, number))
    pool = CompileServers(0, 1.0, 1)
    with pytest.raises(CandidateError):
        pool.made(server, {}, ["object"])
    full = SimpleNamespace(free=servers.LEAST_ROOM_BYTES - 1)
    monkeypatch.setattr(servers.shutil, "disk_usage", lambda folder: full)
    with pytest.raises(ToolchainError, match="no space left on the disk") as refused:
        pool.made(server, {}, ["object"])
    assert str(tmp_path) in refused.value.message
