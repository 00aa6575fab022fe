"""The rig itself: emulated phones are as much of a phone as the tests of the farm rely on."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.rig.phones import TOOL, AdbServer, Fault, Phone, running_phones, shared_object
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


@contextmanager
def under_way(client: subprocess.Popen[str]) -> Iterator[None]:
    """A client that does not end before the context."""
    try:
        yield
        assert client.poll() is None
    finally:
        client.kill()
        client.wait()


OUT = f"{HOME}/out"


def probing(action: str = "") -> str:
    """Runs probe.so on the phone."""
    path = f"DSP_LIBRARY_PATH='/none;{HOME}'"
    # adbd sends SIGHUP to what it started for a client that has gone.
    return f"trap '' HUP; rm -f {OUT}; {path} {TOOL} 3 probe.so {OUT} {action}"


def probe(
    phone: Phone, server: AdbServer, action: str = ""
) -> tuple[subprocess.CompletedProcess[str], bytes]:
    """Runs probe.so on the phone: what was said, and what it wrote."""
    done = server.shell(phone, probing(action))
    return done, output_of(phone, server)


def output_of(phone: Phone, server: AdbServer) -> bytes:
    return server.pull(phone, OUT) if OUT in phone.files() else b""


def cycles(written: bytes) -> list[int]:
    return [int(n) for n in np.frombuffer(written[: 8 * LOOPS], "<u8")]


# A good phone


def test_a_phone_says_what_it_is(phone: Phone, server: AdbServer) -> None:
    said = server.shell(phone, "id -u; getprop ro.soc.model; getprop ro.serialno; getprop no.such")
    assert said.stdout.split("\n") == ["2000", "SM8150", phone.serial, "", ""]
    assert "[sys.boot_completed]: [1]" in server.shell(phone, "getprop").stdout
    degrees = server.shell(phone, "cat /sys/class/thermal/thermal_zone*/temp").stdout.split()
    assert [int(one) // 1000 for one in degrees] == [38, 30, 31, -273, 36]


def test_statuses_come_back_and_files_go_both_ways(
    phone: Phone, server: AdbServer, tmp_path: Path
) -> None:
    assert server.shell(phone, "exit 7").returncode == 7
    content = os.urandom(300_000)
    (tmp_path / "file").write_bytes(content)
    server.push(phone, tmp_path / "file", f"{HOME}/file")
    digest = server.shell(phone, f"sha256sum {HOME}/file").stdout.split()[0]
    assert digest == hashlib.sha256(content).hexdigest()
    assert server.pull(phone, f"{HOME}/file") == content
    server.shell(phone, f"rm {HOME}/file")
    assert f"{HOME}/file" not in phone.files()


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


def test_main_is_called_and_what_it_returns_is_printed(phone: Phone, server: AdbServer) -> None:
    done, written = probe(phone, server, "load")
    assert done.returncode == 0
    assert done.stdout == "Main on Hexagon DSP returned 3\n"
    assert written[8 * LOOPS :] == BLOCK


def test_the_clock_is_exact(phone: Phone, server: AdbServer) -> None:
    first = cycles(probe(phone, server)[1])
    assert len(set(first)) == 1
    assert 100_000 <= first[0] < 101_000
    assert cycles(probe(phone, server)[1]) == first


@pytest.mark.parametrize("action", ["null", "recurse", "unknown"])
def test_a_crash_of_the_dsp_is_told_by_the_status(
    phone: Phone, server: AdbServer, action: str
) -> None:
    done, written = probe(phone, server, action)
    assert done.returncode == 13
    assert "0x8000040d" in done.stdout
    assert written[8 * LOOPS :] == BLOCK


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("3 /data/local/tmp/nothing.so", 6, "cannot open /data/local/tmp/nothing.so"),
        ("3 /system/build.prop", 6, "no shared object for Hexagon"),
        ("0 /data/local/tmp/probe.so", 14, "no such domain"),
        ("3", 14, "usage"),
        ("3 /data/local/tmp/probe.so stack_size=1", 14, "stack_size"),
    ],
)
def test_what_the_tool_cannot_run_it_refuses(
    phone: Phone, server: AdbServer, words: str, status: int, says: str
) -> None:
    done = server.shell(phone, f"{TOOL} {words}")
    assert done.returncode == status
    assert says in done.stderr


def test_a_missing_import_is_named(phone: Phone, server: AdbServer) -> None:
    server.push(phone, shared_object(SOURCE, "-DNEEDS_MORE"), f"{HOME}/more.so")
    done = server.shell(phone, f"{TOOL} 3 {HOME}/more.so {HOME}/out")
    assert done.returncode == 6
    assert "nobody_has_this" in done.stderr


def test_killing_the_tool_ends_the_dsp(phone: Phone, server: AdbServer) -> None:
    phone.set(Fault.HANG)
    done = server.shell(
        phone, f"timeout -s KILL 0.3 {TOOL} 3 {HOME}/probe.so {HOME}/out; echo rc=$?"
    )
    assert "rc=137" in done.stdout
    until(lambda: phone.processes() == [])


# The clock's faults


def test_a_slow_phone_is_slow_by_the_same_every_time(phone: Phone, server: AdbServer) -> None:
    good = cycles(probe(phone, server)[1])
    phone.set(Fault.SLOW, cycles_ppm=1_500_000)
    assert cycles(probe(phone, server)[1]) == [one * 3 // 2 for one in good]


def test_a_noisy_phone_repeats_itself_by_its_seed(phone: Phone, server: AdbServer) -> None:
    def runs(seed: int) -> list[list[int]]:
        phone.set(Fault.NOISY, seed=seed)
        return [cycles(probe(phone, server)[1]) for _ in range(3)]

    first = runs(1)
    assert len({one for run in first for one in run}) > 8
    assert runs(1) == first
    assert runs(2) != first


def test_a_hot_phone_is_slower_and_shows_it_until_it_had_a_rest(
    phone: Phone, server: AdbServer
) -> None:
    good = cycles(probe(phone, server)[1])[0]
    phone.set(Fault.THROTTLING, hot_after=600_000, throttled_ppm=400_000, rest_ms=10_000)
    assert cycles(probe(phone, server)[1]) == [good] * LOOPS
    hot = cycles(probe(phone, server)[1])
    assert hot[0] == good
    assert hot[-1] == good + good * 2 // 5

    def degrees() -> int:
        return int(phone.read("/sys/class/thermal/thermal_zone4/temp")) // 1000

    until(lambda: degrees() > 80)
    until(lambda: degrees() < 40)
    assert cycles(probe(phone, server)[1])[0] == good


# Faults of the DSP


def test_a_hanging_dsp_hangs_where_it_is_told_to(phone: Phone, server: AdbServer) -> None:
    for at_write in (0, 3):
        phone.set(Fault.HANG, at_write=at_write)
        with under_way(server.begin(phone, "shell", probing())):
            until(lambda: any("loader" in line for line in phone.processes()))
            size = 16 if at_write else 0
            until(lambda: len(output_of(phone, server)) == size)  # noqa: B023 - called at once
            time.sleep(1)
            assert len(output_of(phone, server)) == size
            assert any("probe.so" in line for line in phone.processes())
        phone.end_processes()


def test_a_crashing_dsp_crashes_where_it_is_told_to(phone: Phone, server: AdbServer) -> None:
    phone.set(Fault.CRASH, at_write=2)
    done, written = probe(phone, server)
    assert done.returncode == 13
    assert len(written) == 8


def test_a_wrong_result_is_one_bit_off_and_the_same_by_seed(
    phone: Phone, server: AdbServer
) -> None:
    def wrong() -> bytes:
        phone.set(Fault.WRONG_RESULT, seed=5)
        done, written = probe(phone, server)
        assert done.returncode == 0
        return written[8 * LOOPS :]

    first = wrong()
    bits = np.unpackbits(np.frombuffer(first, np.uint8) ^ np.frombuffer(BLOCK, np.uint8))
    assert bits.sum() == 1
    assert wrong() == first


def test_truncated_output_comes_with_status_0(phone: Phone, server: AdbServer) -> None:
    phone.set(Fault.TRUNCATED, keep_bytes_ppm=500_000)
    done, written = probe(phone, server)
    assert (done.returncode, done.stdout) == (0, "Main on Hexagon DSP returned 2\n")
    assert len(written) == (8 * LOOPS + len(BLOCK)) // 2


# Faults of the phone


def test_a_truncated_shell_says_that_all_is_well(phone: Phone, server: AdbServer) -> None:
    phone.set(Fault.TRUNCATED_SHELL, shell_bytes=5)
    done = server.shell(phone, "echo 0123456789; exit 3")
    assert (done.returncode, done.stdout) == (0, "01234")


def test_a_full_disk_takes_nothing_more(phone: Phone, server: AdbServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100_000))
    phone.set(Fault.FULL_DISK)
    done = server.run("-s", phone.address, "push", str(tmp_path / "file"), f"{HOME}/file")
    assert done.returncode != 0
    assert "No space left" in done.stdout + done.stderr
    phone.ok()
    server.push(phone, tmp_path / "file", f"{HOME}/file")


@pytest.mark.parametrize("orphans", [False, True])
def test_a_killed_adbd_takes_its_children_along_unless_told_otherwise(
    phone: Phone, server: AdbServer, orphans: bool
) -> None:
    server.shell(phone, "sleep 3000 >/dev/null 2>&1 </dev/null &")
    phone.set(Fault.ADBD_KILLED, orphans=orphans, restart_after_s=0.1)
    assert any("sleep 3000" in line for line in phone.processes()) == orphans
    until(lambda: "connected" in server.connect(phone))
    until(lambda: server.shell(phone, "true").returncode == 0)
    phone.end_processes()


def test_an_unplugged_phone_is_not_reached_and_works_on(phone: Phone, server: AdbServer) -> None:
    with under_way(server.begin(phone, "shell", "trap '' HUP; sleep 3000")):
        until(lambda: any(line == "sleep 3000" for line in phone.processes()))
    phone.set(Fault.DISCONNECT)
    until(lambda: server.shell(phone, "true").returncode != 0)
    server.run("disconnect")
    with pytest.raises(subprocess.TimeoutExpired):
        server.run("connect", phone.address, timeout_s=1)
    assert any("sleep 3000" in line for line in phone.processes())
    phone.ok()
    until(lambda: "connected" in server.connect(phone))
    phone.end_processes()


def test_a_frozen_phone_is_listed_and_says_nothing(phone: Phone, server: AdbServer) -> None:
    phone.set(Fault.FROZEN)
    assert f"{phone.address}\tdevice" in server.run("devices").stdout
    with pytest.raises(subprocess.TimeoutExpired):
        server.shell(phone, "true", timeout_s=0.5)
    phone.ok()
    assert server.shell(phone, "true").returncode == 0


def test_a_push_that_timed_out_completes_later(
    phone: Phone, server: AdbServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"late")
    phone.set(Fault.SLOW_PUSH)
    late = f"{HOME}/late"
    with under_way(server.begin(phone, "push", str(tmp_path / "file"), late)):
        until(lambda: late in phone.files())
        time.sleep(1)
    assert server.shell(phone, f"wc -c < {HOME}/late").stdout.strip() == "0"
    phone.ok()
    until(lambda: phone.read(late) == "late")


def test_after_its_server_was_killed_a_phone_must_be_connected_again(
    phone: Phone, server: AdbServer
) -> None:
    server.kill()
    server.start()
    assert phone.address not in server.run("devices").stdout
    assert "connected to" in server.connect(phone)
    assert server.shell(phone, "true").returncode == 0


# Nothing is left

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


@pytest.mark.parametrize("end", ["close", signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_the_test_run_ends(
    pair: tuple[Phone, AdbServer], tmp_path: Path, end: str | signal.Signals
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
        if isinstance(end, signal.Signals):
            owner.send_signal(end)
        else:
            owner.stdin.close()
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
