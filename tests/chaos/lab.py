"""Hosts that share nothing but a network: namespaces on a bridge of their own.

Everything lives in the namespaces of the process that made the lab (see :func:`alone`), so that
nothing of it is left when that process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tuner.codegen.toolchain import NativePart, built
from tuner.conformance.patience import PATIENCE_S
from tuner.executor.cluster.authority import make_certificates
from tuner.executor.cluster.encryption import TLS_VARIABLE
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE

BRIDGE = "lab"
NETWORK = "10.77.0."
HERE = f"{NETWORK}1"
"""The address of whoever looks on."""
ALONE = (
    *("unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"),
)
"""Starts a command in namespaces of its own, which end with it."""
_ENTERED = ("--net", "--uts", "--pid", "--ipc", "--mount")
CLOCK = NativePart(
    name="chaos-clock", machine="host", sources=(Path(__file__).with_name("clock.c"),)
)
"""The library by which a host's clock can be wrong."""


def missing() -> str:
    """Why there can be no lab on this machine; empty if there can."""
    needed = [name for name in ("unshare", "nsenter", "ip", "mount") if shutil.which(name) is None]
    if needed:
        return f"needs {', '.join(needed)} (util-linux, iproute2)"
    if os.geteuid() != 0:
        return "needs root, for namespaces on one bridge"
    tried = subprocess.run([*ALONE, "ip", "link", "add", BRIDGE, "type", "bridge"], check=False)
    return "" if tried.returncode == 0 else "this kernel refuses namespaces or bridges"


@dataclass
class Host:
    """A host: network, host name, process numbers and a small disk of its own."""

    name: str
    address: str
    folder: Path
    init: subprocess.Popen[bytes]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self.folder / "state"

    @property
    def log(self) -> Path:
        """What its processes say."""
        return self.folder.parent / f"{self.name}.log"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """What its processes find set: nothing of whoever started the lab but the path."""
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            STATE_DIR_VARIABLE: str(self.state),
            CACHE_DIR_VARIABLE: str(self.folder / "cache"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            TLS_VARIABLE: str(self.folder.parent / "tls" / "lab"),
            "LD_PRELOAD": str(self.folder / "clock.so"),
            "CHAOS_CLOCK": str(self.folder / "clock"),
        }
        return own | dict(more)

    def start(
        self, command: Sequence[str], more: Mapping[str, str] | None = None, user: str = ""
    ) -> subprocess.Popen[bytes]:
        """Starts a process here."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._inside(command, user),
                env=self.environment(more or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def run(self, command: Sequence[str], more: Mapping[str, str] | None = None) -> str:
        """Runs a command to its end; what it prints. ``CalledProcessError`` if it fails."""
        done = subprocess.run(
            self._inside(command),
            env=self.environment(more or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return done.stdout

    def _inside(self, command: Sequence[str], user: str = "") -> list[str]:
        switch = ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
        return ["nsenter", "-t", str(self.init.pid), *_ENTERED, "--", *switch, *command]

    def processes(self) -> list[psutil.Process]:
        """All that run here, children of children included, but the first."""
        own = _namespace_of(self.init.pid)
        found = []
        for process in psutil.process_iter():
            if process.pid != self.init.pid and own and _namespace_of(process.pid) == own:
                with contextlib.suppress(psutil.NoSuchProcess):
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
        return found

    def signal(self, number: signal.Signals) -> None:
        """To all that run here. Those that wait for them outside go on: nsenter stops when the
        process that it started does. It ends when that one has ended, never before: nobody else
        would bury it, and PostgreSQL does not start beside a dead one of its number."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        if number is not signal.SIGSTOP:
            for waiting in self.running:
                waiting.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Power off, in effect: all processes end at once; the disk stays."""
        while self.processes():
            self.signal(signal.SIGKILL)
            time.sleep(0.01)
        for process in self.running:
            process.wait(PATIENCE_S)
        self.running.clear()

    def plug(self, into: bool) -> None:
        """Connects it to the bridge, or pulls the cable: packets vanish, nobody is told."""
        way = ["master", BRIDGE] if into else ["nomaster"]
        _ip("link", "set", f"to-{self.name}", *way)

    def set_clock(self, offset_s: float) -> None:
        """What its processes take the time for, as seconds ahead of the lab's."""
        with (self.folder / "clock").open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("d", offset_s))

    def fill_disk(self) -> None:
        """Leaves no room."""
        ballast = self.folder / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass

    def free_disk(self) -> None:
        """Makes room again."""
        (self.folder / "ballast").unlink(missing_ok=True)


class Lab:
    """Hosts on one bridge. To be made in the namespaces of :data:`ALONE` only."""

    def __init__(self, folder: Path, cache: Path) -> None:
        """Simulators of ``cache`` are copied to each host: nobody fetches one from within."""
        self.folder = folder
        self._cache = cache
        self.hosts: dict[str, Host] = {}
        make_certificates(["lab"], folder / "tls")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{HERE}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")

    def add(self, name: str, disk_mb: int = 512) -> Host:
        """A host ``name`` with a disk of ``disk_mb`` MiB."""
        folder = self.folder / name
        folder.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={disk_mb}m,mode=0755", name, str(folder))
        for part in ("tmp", "state"):
            (folder / part).mkdir(mode=0o700)
        (folder / "clock").write_bytes(struct.pack("d", 0.0))
        shutil.copyfile(built(CLOCK), folder / "clock.so")
        for part in ("qemu", "native"):
            shutil.copytree(self._cache / part, folder / "cache" / part, symlinks=True)
        ready, wait_for = os.pipe()
        # Ignoring SIGCHLD, the first process of a host reaps whoever lost their parent.
        first = (
            f"hostname {name} && ip link set lo up && echo >&{wait_for} && trap '' CHLD && "
            "exec sleep infinity"
        )
        init = subprocess.Popen(
            [
                *("unshare", "--net", "--uts", "--pid", "--ipc", "--mount", "--fork"),
                *("--kill-child", "--mount-proc", "sh", "-c", first),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=[wait_for],
        )
        os.close(wait_for)
        with os.fdopen(ready, "rb") as said:
            assert said.readline(), f"host {name} did not start"
        [inside] = psutil.Process(init.pid).children()
        host = Host(name, f"{NETWORK}{len(self.hosts) + 2}", folder, init)
        host.init.pid = inside.pid  # whose namespaces are the host's
        _ip(
            "link",
            "add",
            f"to-{name}",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(inside.pid),
        )
        _ip("link", "set", f"to-{name}", "master", BRIDGE, "up")
        host.run(["ip", "address", "add", f"{host.address}/24", "dev", "eth0"])
        host.run(["ip", "link", "set", "eth0", "up"])
        for other in self.hosts.values():  # its copies of their disks; they never see its own
            host.run(["umount", str(other.folder)])
        self.hosts[name] = host
        return host


def _namespace_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return ""


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
