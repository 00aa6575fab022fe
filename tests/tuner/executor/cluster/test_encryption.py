"""TLS in a cluster: certificates of one's own authority, or nothing."""

from __future__ import annotations

import asyncio
import socket
import stat
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from distributed import rpc

import tuner
from tests.tuner.executor.cluster.started import Started, started_cluster
from tuner.errors import UserError
from tuner.executor import EXECUTOR_VARIABLE
from tuner.executor.cluster.authority import make_certificates
from tuner.executor.cluster.encryption import TLS_VARIABLE, Certificates, certificates
from tuner.records.trial import JobState


def listening(cluster: Started) -> list[int]:
    """The ports of scheduler and worker, without those for HTTP, which serve nothing."""
    pids = [cluster.scheduler_pid, *(one.pid for one in cluster.processes.values())]
    found = [one for pid in pids for one in psutil.Process(pid).net_connections("tcp")]
    return [one.laddr.port for one in found if one.status == psutil.CONN_LISTEN]


async def run_there(address: str, certificates: Certificates | None) -> None:
    """What Dask runs for whoever may connect."""
    security = certificates.security if certificates else None
    given = security.get_connection_args("client") if security else None
    async with asyncio.timeout(2.0):
        async with rpc(address, connection_args=given) as there:
            await there.identity()


@pytest.mark.slow
def test_strangers_are_refused_while_a_job_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [ours] = make_certificates(["127.0.0.1"], tmp_path / "lab").folders.values()
    [theirs] = make_certificates(["127.0.0.1"], tmp_path / "elsewhere").folders.values()
    monkeypatch.setenv(TLS_VARIABLE, str(ours))
    with started_cluster(tmp_path, "worker") as cluster, ExitStack() as half_open:
        ports = listening(cluster)
        assert len(ports) == 4
        for port in ports * 5:
            half_open.enter_context(socket.create_connection(("127.0.0.1", port)))
        addresses = [f"tls://127.0.0.1:{port}" for port in ports]
        seen: list[int] = []

        def look(progress: tuner.Progress) -> None:
            if 0 < progress.finished < 8 and not seen:  # several may finish together
                seen.append(progress.finished)
                for one in addresses:
                    for address, held in ((one, Certificates(theirs)), ("tcp" + one[3:], None)):
                        with pytest.raises((OSError, TimeoutError)):
                            asyncio.run(run_there(address, held))

        monkeypatch.setenv(EXECUTOR_VARIABLE, cluster.executor)
        small = {"width": 256, "height": 8}
        done = tuner.tune("add_u8", small, contract="static", trials=8, on_progress=look)
        assert done.job.state is JobState.DONE
        assert seen
        known = [asyncio.run(answers(address, Certificates(ours))) for address in addresses]
        assert sum(known) == 2, "scheduler and worker answer who has a certificate"


async def answers(address: str, held: Certificates) -> bool:
    try:
        await run_there(address, held)
    except (OSError, TimeoutError):
        return False
    return True


def test_hosts_are_added_to_an_authority_and_nothing_is_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tls"
    first = make_certificates(["lab7", "10.0.0.5"], folder)
    assert first.new_authority
    before = {place: place.read_bytes() for place in folder.rglob("*") if place.is_file()}
    for refused in ("lab7", "../lab9", ""):
        with pytest.raises(UserError):
            make_certificates(["lab8", refused], folder)
    second = make_certificates(["lab8"], folder)
    assert not second.new_authority
    assert {place: place.read_bytes() for place in before} == before
    for made in (*first.folders.values(), *second.folders.values()):
        Certificates(made).check()
        assert Certificates(made).authority.read_bytes() == (folder / "ca.pem").read_bytes()
    keys = [*folder.rglob("*key*")]
    assert len(keys) == 4
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_an_authority_without_its_own_key_signs_nothing(tmp_path: Path) -> None:
    make_certificates(["lab7"], tmp_path / "one")
    make_certificates(["lab7"], tmp_path / "other")
    key = tmp_path / "one" / "ca.key"
    key.write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(UserError, match="key values mismatch"):
        make_certificates(["lab8"], tmp_path / "one")
    key.unlink()
    with pytest.raises(UserError, match=r"ca\.key is missing"):
        make_certificates(["lab8"], tmp_path / "one")


def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TLS_VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"ca\.pem is missing") as refused:
        certificates()
    assert "hvxtune cluster certificates" in refused.value.next_step
