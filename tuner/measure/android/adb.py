"""The adb server's protocol over asyncio: deadlines everywhere, frames read strictly.

The program ``adb`` only starts the server. Its own client is not used: it answers status 0 where
adbd died in the middle of a command, and takes five times as long for a short one.

Frames are those of the server's own protocol, of ``shell,v2`` and of ``sync``; source: AOSP
packages/modules/adb, docs/dev (services, sync) and shell_protocol.h. Whatever comes in ends as a
value, as a refusal of the other side, or as ``ProtocolError``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from tuner.errors import DeviceError, InternalError, ToolchainError
from tuner.paths import writable

_HEX_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")
_SHELL_HEADER = struct.Struct("<BI")
_SYNC_HEADER = struct.Struct("<4sI")
_STAT = struct.Struct("<3I")
CHUNK_BYTES = 1 << 16
"""SYNC_DATA_MAX: adbd drops the connection at more."""
_PATH_BYTES = 1024
"""The longest path that adbd reads."""
_REASON_BYTES = 4096


class ProtocolError(DeviceError):
    """The other side broke off, or said what no adb says."""


class RefusedError(DeviceError):
    """The server or the phone answered that it will not, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"adb: {printable(reason)}")
        self.reason = reason


@dataclass(frozen=True)
class ShellOutput:
    """A remote command that ended with ``status``."""

    stdout: bytes
    stderr: bytes
    status: int


@dataclass(frozen=True)
class Stat:
    """A remote file: mode bits, size in bytes (modulo 2^32) and time of change in seconds."""

    mode: int
    size: int
    changed_s: int


def printable(text: str) -> str:
    """``text`` in one line and without control characters: a phone chose it."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:500]


def request(service: str) -> bytes:
    """A request for ``service`` of the server, or of adbd once a transport is chosen."""
    data = service.encode()
    if not data or len(data) > 0xFFFF:
        raise InternalError(f"an adb request of {len(data)} bytes")
    return b"%04x" % len(data) + data


async def _exactly(reader: asyncio.StreamReader, count: int) -> bytes:
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError as error:
        raise ProtocolError(f"adb broke off: {len(error.partial)} of {count} bytes came") from None
    except OSError as error:
        raise ProtocolError(f"adb broke off: {error.strerror or error}") from None


async def read_text(reader: asyncio.StreamReader) -> str:
    """Four hexadecimal digits and as many bytes."""
    length = await _exactly(reader, 4)
    if not _HEX_LENGTH.fullmatch(length):
        raise ProtocolError(f"adb gave {length!r} for a length")
    return (await _exactly(reader, int(length, 16))).decode(errors="replace")


async def read_status(reader: asyncio.StreamReader) -> None:
    """Returns if the request was granted; :class:`RefusedError` with the reason if not."""
    word = await _exactly(reader, 4)
    if word == b"FAIL":
        raise RefusedError(await read_text(reader))
    if word != b"OKAY":
        raise ProtocolError(f"adb answered {word!r}")


class _Shell(IntEnum):
    STDOUT = 1
    STDERR = 2
    EXIT = 3


async def read_shell(reader: asyncio.StreamReader, most_bytes: int) -> ShellOutput:
    """The output of a ``shell,v2`` command up to its exit packet; without one it did not end."""
    said = {_Shell.STDOUT: bytearray(), _Shell.STDERR: bytearray()}
    left = most_bytes
    while True:
        kind, length = _SHELL_HEADER.unpack(await _exactly(reader, _SHELL_HEADER.size))
        if kind == _Shell.EXIT:
            if length != 1:
                raise ProtocolError(f"adb gave an exit status of {length} bytes")
            status = (await _exactly(reader, 1))[0]
            return ShellOutput(bytes(said[_Shell.STDOUT]), bytes(said[_Shell.STDERR]), status)
        if kind not in (_Shell.STDOUT, _Shell.STDERR):
            raise ProtocolError(f"adb gave a shell packet of kind {kind}")
        if length > left:
            raise ProtocolError(f"the command said more than {most_bytes} bytes")
        left -= length
        said[_Shell(kind)] += await _exactly(reader, length)


def sync_request(word: bytes, path: str) -> bytes:
    """A request of ``sync`` about ``path``."""
    data = path.encode()
    if not data or len(data) > _PATH_BYTES:
        raise InternalError(f"a remote path of {len(data)} bytes: {path[:80]}")
    return _SYNC_HEADER.pack(word, len(data)) + data


def sync_chunk(data: bytes | memoryview) -> bytes:
    """A piece of a file, of at most :data:`CHUNK_BYTES`."""
    return _SYNC_HEADER.pack(b"DATA", len(data)) + data


def sync_done(changed_s: int) -> bytes:
    """The end of a file that is sent; it gets ``changed_s`` as its time of change."""
    return _SYNC_HEADER.pack(b"DONE", changed_s)


async def _refuse(reader: asyncio.StreamReader, word: bytes, length: int) -> None:
    if word != b"FAIL":
        raise ProtocolError(f"adb answered {word!r} within a transfer")
    if length > _REASON_BYTES:
        raise ProtocolError(f"adb gave a reason of {length} bytes")
    raise RefusedError((await _exactly(reader, length)).decode(errors="replace"))


async def read_sync_okay(reader: asyncio.StreamReader) -> None:
    """The phone has the file; :class:`RefusedError` says why not (no space, no permission)."""
    word, length = _SYNC_HEADER.unpack(await _exactly(reader, _SYNC_HEADER.size))
    if word != b"OKAY":
        await _refuse(reader, word, length)


async def read_file(reader: asyncio.StreamReader, most_bytes: int) -> bytes:
    """A file that the phone sends."""
    content = bytearray()
    while True:
        word, length = _SYNC_HEADER.unpack(await _exactly(reader, _SYNC_HEADER.size))
        if word == b"DONE":
            return bytes(content)
        if word != b"DATA":
            await _refuse(reader, word, length)
        if length > CHUNK_BYTES or len(content) + length > most_bytes:
            raise ProtocolError(f"the phone sends more than {most_bytes} bytes")
        content += await _exactly(reader, length)


async def read_stat(reader: asyncio.StreamReader) -> Stat | None:
    """``None`` where there is no such file."""
    word = await _exactly(reader, 4)
    if word != b"STAT":
        raise ProtocolError(f"adb answered {word!r} to a question about a file")
    mode, size, changed = _STAT.unpack(await _exactly(reader, _STAT.size))
    return Stat(mode, size, changed) if mode else None


ANSWER_S = 5.0
"""For what the server answers by itself."""
_QUEUE_S = 0.01
SHELL_BYTES = 1 << 22
PULL_BYTES = 1 << 28
_CONNECTED = re.compile(r"(already )?connected to \S+")


@dataclass(frozen=True)
class Address:
    """Where an adb server listens: the Unix socket ``path``, or ``host`` and ``port``."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Push:
    """A file to be made on the phone: ``content`` at ``path`` with permission bits ``mode``."""

    path: str
    content: bytes
    mode: int = 0o644


class _Stream:
    """A connection to the server: requests go out, answers are read from ``reader``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def send(self, *data: bytes) -> None:
        try:
            for piece in data:
                self._writer.write(piece)
                await self._writer.drain()
        except OSError as error:
            raise ProtocolError(f"adb broke off: {error.strerror or error}") from None

    async def ask(self, service: str) -> None:
        await self.send(request(service))
        await read_status(self.reader)


class AdbClient:
    """Talks to the server at ``address``. Used from within one event loop.

    Every method raises ``DeviceError`` if the server cannot be reached, breaks off, says what no
    adb says, refuses, or does not end within ``timeout_s`` seconds. What a phone was
    asked for may still happen after that.
    """

    def __init__(self, address: Address) -> None:
        self.address = address

    async def version(self) -> int:
        """Version of the server's protocol."""
        text = await self._text("host:version")
        if not re.fullmatch(r"[0-9a-fA-F]{4}", text):
            raise ProtocolError(f"adb gave '{printable(text)}' for its version")
        return int(text, 16)

    async def connect(self, device: str, timeout_s: float = ANSWER_S) -> None:
        """Makes the phone at ``device`` (``host:port``) known to the server. Safe to repeat."""
        said = await self._text(f"host:connect:{device}", timeout_s)
        if not _CONNECTED.fullmatch(said.strip()):  # failures come as plain text, too
            raise RefusedError(said)

    async def disconnect(self, device: str) -> None:
        """The inverse of :meth:`connect`; also of a device that is not connected."""
        with contextlib.suppress(RefusedError):
            await self._text(f"host:disconnect:{device}")

    async def shell(self, serial: str, command: str, timeout_s: float) -> ShellOutput:
        """Runs ``command`` in the phone's shell until its exit packet."""
        async with self._phone(serial, timeout_s, "run a command") as stream:
            await stream.ask(f"shell,v2,raw:{command}")
            return await read_shell(stream.reader, SHELL_BYTES)

    async def push(self, serial: str, files: Sequence[Push], timeout_s: float) -> None:
        """Makes ``files`` on the phone, one after the other, and the folders they lie in."""
        async with self._phone(serial, timeout_s, "push files") as stream:
            await stream.ask("sync:")
            for file in files:
                view = memoryview(file.content)
                pieces = (
                    sync_chunk(view[at : at + CHUNK_BYTES])
                    for at in range(0, len(view), CHUNK_BYTES)
                )
                head = sync_request(b"SEND", f"{file.path},{0o100000 | file.mode}")
                await stream.send(head, *pieces, sync_done(0))
                await read_sync_okay(stream.reader)

    async def pull(
        self, serial: str, path: str, timeout_s: float, most_bytes: int = PULL_BYTES
    ) -> bytes:
        """The content of the remote file ``path``."""
        async with self._phone(serial, timeout_s, f"pull {path}") as stream:
            await stream.ask("sync:")
            await stream.send(sync_request(b"RECV", path))
            return await read_file(stream.reader, most_bytes)

    async def stat(self, serial: str, path: str, timeout_s: float) -> Stat | None:
        """The file at ``path`` on the phone; ``None`` if it does not exist."""
        async with self._phone(serial, timeout_s, f"look at {path}") as stream:
            await stream.ask("sync:")
            await stream.send(sync_request(b"STAT", path))
            return await read_stat(stream.reader)

    async def _text(self, service: str, timeout_s: float = ANSWER_S) -> str:
        async with _deadline(timeout_s, service), self._connection() as stream:
            await stream.ask(service)
            return await read_text(stream.reader)

    @contextlib.asynccontextmanager
    async def _phone(self, serial: str, timeout_s: float, what: str) -> AsyncIterator[_Stream]:
        async with _deadline(timeout_s, f"{what} on {serial}"), self._connection() as stream:
            await stream.ask(f"host:transport:{serial}")
            yield stream

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[_Stream]:
        stream, writer = await self._open()
        try:
            yield stream
        finally:
            writer.close()

    async def _open(self) -> tuple[_Stream, asyncio.StreamWriter]:
        where = self.address
        try:
            if where.path:
                made = await _connected_socket(where.path)
                reader, writer = await asyncio.open_unix_connection(sock=made)
            else:
                reader, writer = await asyncio.open_connection(where.host, where.port)
        except OSError as error:
            raise DeviceError(
                f"no adb server answers at {where}: {error.strerror or error}"
            ) from None
        return _Stream(reader, writer), writer


async def _connected_socket(path: str) -> socket.socket:
    """A connection to the Unix socket at ``path``, once its queue has room: adb's holds four.

    Where it has none the kernel says to try again, which asyncio takes for "under way": what it
    then hands out is not connected.
    """
    while True:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            made.connect(path)
        except BlockingIOError:
            made.close()
            await asyncio.sleep(_QUEUE_S)
        except BaseException:
            made.close()
            raise
        else:
            return made


@contextlib.asynccontextmanager
async def _deadline(seconds: float, what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise DeviceError(f"adb did not {what} within {seconds:g} s") from None


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
            f"{given} is not a program" if given else "adb is not on the PATH",
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
        """How often it was started: phones by address must be connected again after each."""

    @property
    def pid(self) -> int | None:
        """Process id of the own server while there is one."""
        return self._process.pid if self._process else None

    async def has_ended(self, starts: int) -> bool:
        """Whether the own server that was started as the ``starts``-th has ended."""
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
