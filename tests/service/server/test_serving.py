"""A service from its start to its end."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import httpx
import psutil
import pytest

from db import open_store
from service.server.serving import serve
from service.settings import Settings
from tests.service.served import Served, served
from tuner.conformance.patience import PATIENCE_S
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.errors import UserError


def never(_about: object) -> None:
    raise AssertionError("it listens")


def refusal(**settings: object) -> UserError:
    with pytest.raises(UserError) as refused:
        serve(Settings(conductors=0, **settings), never)  # type: ignore[arg-type]
    return refused.value


@pytest.mark.slow
def test_it_says_where_it_listens_answers_and_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows a job does not keep it from ending, and its conductors leave with it."""
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("HVXTUNE_DATABASE_URL", raising=False)
    with open_store() as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
    with served(tmp_path / "state", "--conductors", "2") as service:
        assert service.url.startswith("http://127.0.0.1:")
        ready = service.get("/readyz").json()
        assert (ready["status"], ready["conductors"]) == ("ready", 2)
        assert service.about["database"].startswith(str(tmp_path))
        conductors = conductors_of(service)
        assert len(conductors) == 2
        headers = {"Authorization": f"Bearer {service.about['token']}"}
        with httpx.stream(
            "GET", f"{service.url}/v1/jobs/{job.id}/events", headers=headers, timeout=PATIENCE_S
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith(("id:", "event:", ":", "retry:"))
            assert service.end(signal.SIGINT) == 0
        assert not any(process.is_running() for process in conductors)
        log = service.log.read_text()
        assert "timeout graceful shutdown" not in log
        assert "Traceback" not in log


@pytest.mark.slow
def test_killed_it_leaves_no_conductor_behind(tmp_path: Path) -> None:
    with served(tmp_path / "state") as service:
        conductors = conductors_of(service)
        assert conductors
        service.process.kill()
        gone, alive = psutil.wait_procs(conductors, timeout=PATIENCE_S)
        assert (len(gone), alive) == (1, [])


def conductors_of(service: Served) -> list[psutil.Process]:
    return psutil.Process(service.process.pid).children()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = refusal(port=port)
    assert f"--port {port}" in error.message
    assert "0" in error.accepted


def test_tls_needs_both_files_and_usable_ones(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    gone = str(tmp_path / "gone.pem")
    assert "without --tls-key" in refusal(tls_certificate=gone).message
    assert "without --tls-certificate" in refusal(tls_key=gone).message
    assert gone in refusal(tls_certificate=gone, tls_key=str(nonsense)).message
    refused = refusal(tls_certificate=str(nonsense), tls_key=str(nonsense))
    assert str(nonsense) in refused.message
    assert refused.next_step
