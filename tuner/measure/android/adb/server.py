"""An adb server of this process's own, or one that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tuner.errors import DeviceError, ToolchainError
from tuner.machine.paths import writable
from tuner.measure.android.adb.client import AdbClient, Address
from tuner.measure.android.adb.frames import printable

ADB_VARIABLE = "HVXTUNE_ADB"
SERVER_VARIABLE = "HVXTUNE_ADB_SERVER"
_START_S = 20.0
_STARTS = 3
_DYING_S = 0.5
"""Its connections break a moment before a killed server can be seen to have ended."""
_PROTOCOL = 41
"""The server's protocol since platform-tools 29 (2019), with ``shell,v2`` all along."""


def find_adb() -> Path:
    """The program ``adb``: ``$HVXTUNE_ADB``, else the one on the PATH."""
    given = os.environ.get(ADB_VARIABLE)
    found = shutil.which(given) if given else shutil.which("adb")
    if found is None:
        raise ToolchainError(
            f"{given} is no program" if given else "there is no adb on the PATH",
            next_step="install adb (Debian and Ubuntu: the package adb; else the SDK Platform "
            f"Tools of Android), or set {ADB_VARIABLE} to it",
        )
    return Path(found)


class AdbServer:
    """A server that nobody else uses, started when it is first needed and again if it died.

    It listens on a Unix socket in a folder of its own, so no other user and no other worker reaches
    it, and refuses the command that would end it. With ``$HVXTUNE_ADB_SERVER`` (``host:port``) the
    server there is used instead and never started or ended: a phone on USB belongs to one server.
    """

    def __init__(self, adb: Path | None = None, existing: Address | None = None) -> None:
        self._adb = adb
        self._existing = existing or _existing_server()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None
        self._starting = asyncio.Lock()
        self.starts = 0
        """How often it was started: phones by address must be connected anew after each."""

    @property
    def pid(self) -> int | None:
        """Process id of the own server while there is one."""
        return self._process.pid if self._process else None

    async def has_ended(self, starts: int) -> bool:
        """Whether the own server that was started as the ``starts``-th is no more."""
        give_up = time.monotonic() + _DYING_S
        while self._existing is None and self.starts == starts:
            if self._process is None or self._process.poll() is not None:
                return True
            if time.monotonic() > give_up:
                return False
            await asyncio.sleep(0.01)
        return self._existing is None

    async def client(self) -> AdbClient:
        """A client of the running server. Raises ``ToolchainError`` if none can be started."""
        if self._existing is not None:
            return AdbClient(self._existing)
        async with self._starting:
            if self._process is None or self._process.poll() is not None:
                await self._start()
            assert self._folder is not None  # noqa: S101 - set by _start
            return AdbClient(Address(path=f"{self._folder}/socket"))

    async def _start(self) -> None:
        adb = self._adb or find_adb()
        for _ in range(_STARTS):
            self._launch(adb)
            if await self._answers(adb):
                return
        raise ToolchainError(
            f"the adb server is killed whenever it starts ({_STARTS} times)",
            next_step="look who ends it: `adb kill-server` in a script, or the kernel for memory",
        )

    def _launch(self, adb: Path) -> None:
        self._clear()
        # Socket paths are short (108 bytes), state directories need not be.
        self._folder = tempfile.mkdtemp(prefix="hvxtune-adb-")
        with open(f"{self._folder}/log", "wb") as log:
            try:
                self._process = subprocess.Popen(
                    [*_ending_with_us(), adb, *self._arguments()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(),
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise ToolchainError(f"{adb} cannot be run: {error.strerror}") from None
        self.starts += 1

    def _arguments(self) -> list[str]:
        return ["-L", f"localfilesystem:{self._folder}/socket", "server", "nodaemon"]

    async def _answers(self, adb: Path) -> bool:
        """Waits until it does; false if somebody killed it before."""
        client = AdbClient(Address(path=f"{self._folder}/socket"))
        give_up = time.monotonic() + _START_S
        while self._process is not None and self._process.poll() is None:
            with contextlib.suppress(DeviceError):
                version = await client.version()
                if version < _PROTOCOL:
                    raise ToolchainError(
                        f"{adb} speaks version {version} of the protocol",
                        accepted=f"{_PROTOCOL} or newer (platform-tools 29)",
                    )
                return True
            if time.monotonic() > give_up:
                break
            await asyncio.sleep(0.01)
        if self._process is not None and (self._process.poll() or 0) < 0:
            return False
        said = Path(f"{self._folder}/log").read_text(errors="replace")[-500:]
        self.close()
        raise ToolchainError(
            f"the adb server does not start: {printable(said) or 'it says nothing'}",
            next_step=f"run `{adb} server nodaemon` by hand",
        )

    def close(self) -> None:
        """Ends the own server and removes its folder. Safe to call twice."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._clear()

    def _clear(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _existing_server() -> Address | None:
    given = os.environ.get(SERVER_VARIABLE)
    if not given:
        return None
    host, colon, port = given.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise ToolchainError(
            f"{SERVER_VARIABLE} is '{given}'", accepted="host:port, such as 127.0.0.1:5037"
        )
    return Address(host=host.strip("[]"), port=int(port))


def _environment() -> dict[str, str]:
    """Keys and settings of its own; no search for phones that nobody named."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(writable("adb")),
        "ADB_REJECT_KILL_SERVER": "1",
        "ADB_MDNS": "0",
        "ADB_MDNS_AUTO_CONNECT": "0",
        # No search for emulators on the ports from 5555 on.
        "ADB_LOCAL_TRANSPORT_MAX_PORT": "5554",
    }


def _ending_with_us() -> list[str]:
    """Ends the server with this process, however that ends, where util-linux is."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
