"""The rig itself: emulated phones are as much of a phone as the tests of the farm rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.rig.phones import AdbServer, Phone, running_phones, shared_object
from tests.rig.phones import require_rig as rig_programs
from tuner.conformance.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parent / "phones/sources/probe.c"
HOME = "/data/local/tmp"
LOOPS, BLOCK = 4, bytes(range(256)) * 4
"""What probe.c writes: the cycles of so many loops, then this."""


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Phone, AdbServer]]:
    with running_phones(1) as [phone], AdbServer(rig_programs()) as server:
        server.connect(phone)
        server.push(phone, shared_object(SOURCE), f"{HOME}/probe.so")
        yield phone, server


@pytest.fixture
def phone(pair: tuple[Phone, AdbServer]) -> Iterator[Phone]:
    yield pair[0]
    pair[0].ok()


@pytest.fixture
def server(pair: tuple[Phone, AdbServer]) -> Iterator[AdbServer]:
    yield pair[1]
    pair[0].ok()
    if pair[1].shell(pair[0], "true").returncode:
        pair[1].run("disconnect")
        until(lambda: "connected" in pair[1].connect(pair[0]))


def test_adbd_is_reached_over_loopback_only(phone: Phone) -> None:
    listening = {
        connection.laddr.ip
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == phone.port
    }
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert listening


def test_nothing_of_this_machine_is_seen_or_written(phone: Phone, server: AdbServer) -> None:
    listed = server.shell(phone, "ls /; ps -o pid,args").stdout
    assert "home" not in listed.split()
    assert str(os.getpid()) not in listed.split()
    for place in ("/apex/adbd", "/system", "/vendor", ""):
        assert "Read-only file system" in server.shell(phone, f"touch {place}/x").stderr


OWNER = """
import sys
from tests.rig.phones import AdbServer, Fault, require_rig, running_phones
with running_phones(2) as phones, AdbServer(require_rig()):
    phones[1].set(Fault.FROZEN)
    print("ready", flush=True)
    sys.stdin.read()
"""


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def test_nothing_is_left_however_the_test_run_ends(
    pair: tuple[Phone, AdbServer], tmp_path: Path
) -> None:
    before = mounts()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdin is not None
        assert owner.stdout.readline() == b"ready\n"
        family = psutil.Process(owner.pid).children(recursive=True)
        commands = [" ".join(one.cmdline()) for one in family]
        assert len([one for one in commands if "adbd/adbd" in one]) == 2
        assert len([one for one in commands if "nodaemon" in one]) == 1
        assert mounts() == before
        owner.kill()
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert alive == []
    assert mounts() == before
    assert list(tmp_path.iterdir()) == []


def test_a_phone_ends_with_all_that_runs_on_it(pair: tuple[Phone, AdbServer]) -> None:
    server = pair[1]
    with running_phones(1) as [phone]:
        server.connect(phone)
        server.shell(phone, f"setsid sleep {phone.port} >/dev/null 2>&1 </dev/null &")
        until(lambda: phone.processes() == [f"sleep {phone.port}"])
        sleeping = [
            one
            for one in psutil.process_iter(["cmdline"])
            if one.info["cmdline"] == ["sleep", str(phone.port)]
        ]
        assert len(sleeping) == 1
    _, alive = psutil.wait_procs(sleeping, timeout=PATIENCE_S)
    assert alive == []
