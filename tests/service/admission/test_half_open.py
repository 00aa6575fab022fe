"""The service as people start it, with fewer files than there are half-open connections."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.service.served import served
from tuner.conformance.patience import PATIENCE_S

FILES = 1024
HALF_OPEN = 1500


@contextmanager
def files(most: int) -> Iterator[None]:
    """This process, and those it starts, may open so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_more_half_open_connections_than_files_do_not_stop_health_checks(tmp_path: Path) -> None:
    with ExitStack() as started, files(FILES):
        service = started.enter_context(served(tmp_path / "state", "--conductors", "0"))
        port = int(service.url.rpartition(":")[2])
        with files(HALF_OPEN + psutil.Process().num_fds() + 50), ExitStack() as opened:
            for _ in range(HALF_OPEN):
                one = opened.enter_context(
                    socket.create_connection(("127.0.0.1", port), PATIENCE_S)
                )
                one.sendall(b"GET /healthz HTTP/1.1\r\nhost: te")
            assert service.get("/healthz").status_code == 200
            assert service.get("/readyz").status_code == 200
            assert service.get("/v1/kernels").status_code == 200
            process = psutil.Process(service.process.pid)
            assert process.num_fds() < FILES - 100  # some are left for the work
        assert "Too many open files" not in service.log.read_text()
