"""Compilations that nobody waits for any more."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tuner.codegen.halide.servers import CompileServer, CompileServers, ServerDiedError
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import OutOfTimeError, ToolchainError


class Endless(CompileServer):
    """Compiles until it is killed; ``error`` is what becomes of it then."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.compiling, self.killed = threading.Event(), threading.Event()

    def run(self, request, given):
        self.compiling.set()
        assert self.killed.wait(PATIENCE_S)
        raise self.error

    def kill(self) -> None:
        self.killed.set()


@pytest.fixture
def servers():
    made = CompileServers(1, 1.0, 1 << 30)
    yield made
    made.close()


@pytest.mark.parametrize(
    "error", [ServerDiedError("it ended"), ToolchainError("it does not start")]
)
def test_what_is_being_compiled_is_ended_and_the_candidate_not_blamed(servers, error) -> None:
    server = Endless(error)
    servers.all[0].close()
    servers.all = [server]
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(servers.made, server, {}, ["object"])
        assert server.compiling.wait(PATIENCE_S)
        servers.abandon()
        with pytest.raises(OutOfTimeError):
            result.result(PATIENCE_S)
    servers.all = []


def test_nothing_is_compiled_afterwards(servers) -> None:
    servers.abandon()
    with pytest.raises(OutOfTimeError):
        servers.made(servers.all[0], {}, ["object"])
