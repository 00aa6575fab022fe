"""Emulated phones for tests: all of them at once, an adb server, and what to run on them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.rig.phones.packages import HOME, Programs, find_programs
from tests.rig.phones.phone import Model, Phone, RigUnavailableError
from tuner.codegen.toolchain import NativePart, built, find_toolchain
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import ToolchainError
from tuner.paths import writable

REQUIRED_VARIABLE = "HVXTUNE_REQUIRE_RIG"
"""Set where emulated phones must be had: a test that would skip fails instead. CI sets it."""


@cache
def _programs_or_reason() -> Programs | str:
    try:
        programs = find_programs()
        Phone(Model("trial"), programs).close()
    except (ToolchainError, RigUnavailableError) as error:
        remedy = namespaces_remedy() if isinstance(error, RigUnavailableError) else ""
        return f"no emulated phones here: {error}{remedy}"
    return programs


def namespaces_remedy(kernel: Path = Path("/proc/sys")) -> str:
    """What to do where phones cannot have namespaces, by what the kernel says at ``kernel``."""
    said = {
        "kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            (
                "AppArmor keeps user namespaces from programs: "
                "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
            ),
        ),
        "user/max_user_namespaces": (
            "0",
            "the kernel allows no user namespaces: `sudo sysctl user.max_user_namespaces=10000`",
        ),
    }
    for name, (value, remedy) in said.items():
        place = kernel / name
        if place.exists() and place.read_text().strip() == value:
            return f" ({remedy})"
    return " (a container needs --privileged; docs/devices.md)"


def require_rig() -> Programs:
    """The programs of the rig. Skips the test where there can be no phones, and says why."""
    found = _programs_or_reason()
    if isinstance(found, Programs):
        return found
    if os.environ.get(REQUIRED_VARIABLE):
        pytest.fail(f"{found} ({REQUIRED_VARIABLE} is set)")
    pytest.skip(found)


@contextmanager
def running_phones(count: int = 3, *, models: Sequence[Model] = ()) -> Iterator[list[Phone]]:
    """``count`` good phones, or those of ``models``; ended with the context."""
    programs = require_rig()
    wanted = models or [Model(f"EMU{number:04}") for number in range(1, count + 1)]
    with ExitStack() as stack:
        yield [stack.enter_context(Phone(model, programs)) for model in wanted]


class AdbServer:
    """Debian's adb server on a port of its own, and its client.

    The product starts servers by itself; this one is for tests of the rig, and for those that
    kill a server (:meth:`kill`) under the product's feet. It ends with the thread that made it,
    however that ends.
    """

    def __init__(self, programs: Programs) -> None:
        self._adb = programs.adb
        self._home = HOME / "home"  # where adb keeps its key
        self._home.mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """A new server, which knows no phone yet. Returns once it answers."""
        server = [self._adb, "-L", f"tcp:{self.port}", "nodaemon", "server"]
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *server],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), PATIENCE_S).close()
                return
            except ConnectionRefusedError:
                assert self._process.poll() is None, "the adb server did not start"
                assert time.monotonic() < deadline, "the adb server does not listen"
                time.sleep(0.005)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def run(
        self, *arguments: str, timeout_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """The adb client; ``subprocess.TimeoutExpired`` if it does not end."""
        return subprocess.run(
            [self._adb, "-P", str(self.port), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            env=self._environment(),
            timeout=timeout_s,
            check=False,
        )

    def connect(self, phone: Phone) -> str:
        """What the server says of it."""
        return self.run("connect", phone.address).stdout

    def shell(
        self, phone: Phone, command: str, *, timeout_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        return self.run("-s", phone.address, "shell", command, timeout_s=timeout_s)

    def begin(self, phone: Phone, *arguments: str) -> subprocess.Popen[str]:
        """The adb client, to be ended by the caller."""
        return subprocess.Popen(
            [self._adb, "-P", str(self.port), "-s", phone.address, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._environment(),
        )

    def push(self, phone: Phone, source: Path, target: str) -> None:
        done = self.run("-s", phone.address, "push", str(source), target)
        assert done.returncode == 0, done.stderr

    def pull(self, phone: Phone, source: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "pulled"
            done = self.run("-s", phone.address, "pull", source, str(place))
            assert done.returncode == 0, done.stderr
            return place.read_bytes()

    def close(self) -> None:
        self.kill()

    def __enter__(self) -> AdbServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self._home), "PATH": os.environ["PATH"], "ADB_MDNS": "0"}


def shared_object(source: Path, *flags: str, arch: str = "v66") -> Path:
    """``source`` (C) as a shared object for the DSP."""
    part = NativePart(
        name=f"dsp-{source.stem}",
        machine="hexagon",
        sources=(source,),
        arch=arch,
        flags=("-fPIC", "-fno-builtin", *flags),
    )
    compiled = built(part)
    place = writable("native") / compiled.with_suffix(".so").name
    if not place.exists():
        aside = place.with_suffix(f".{os.getpid()}")
        done = find_toolchain().lld(
            ["-shared", "-z", "now", "--hash-style=sysv", compiled, "-o", aside]
        )
        assert done.returncode == 0, done.stderr
        os.replace(aside, place)
    return place
