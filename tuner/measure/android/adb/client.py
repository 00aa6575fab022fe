"""The client: one connection to the adb server for each request, each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from tuner.errors import DeviceError
from tuner.measure.android.adb.frames import (
    CHUNK_BYTES,
    ProtocolError,
    RefusedError,
    ShellOutput,
    Stat,
    printable,
    read_file,
    read_shell,
    read_stat,
    read_status,
    read_sync_okay,
    read_text,
    request,
    sync_chunk,
    sync_done,
    sync_request,
)

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
    adb says, refuses, or does not come to an end within ``timeout_s`` seconds. What a phone was
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

    async def devices(self) -> dict[str, str]:
        """State (``device``, ``offline``, ``unauthorized``) by serial. Proves nothing: a phone that
        was frozen stays ``device``."""
        return _listed(await self._text("host:devices"))

    async def track(self) -> AsyncIterator[dict[str, str]]:
        """The devices now, and again after each change, for as long as it is read."""
        async with _deadline(ANSWER_S, "track devices"):
            stream, writer = await self._open()
        try:
            async with _deadline(ANSWER_S, "track devices"):
                await stream.ask("host:track-devices")
            while True:
                yield _listed(await read_text(stream.reader))
        finally:
            writer.close()

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
        """What lies at ``path`` on the phone; ``None`` for nothing."""
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

    Where there is none the kernel says to try again, which asyncio takes for "under way": what it
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


def _listed(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        serial, tab, state = line.partition("\t")
        if not serial or not tab or not state:
            raise ProtocolError(f"adb lists '{printable(line)}' as a device")
        found[serial] = state
    return found
