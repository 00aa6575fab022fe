"""Frames of adb: of the server's own protocol, of ``shell,v2`` and of ``sync``.

Source: AOSP packages/modules/adb, docs/dev (services, sync) and shell_protocol.h. Whatever comes in
ends as a value, as what the other side refused, or as ``ProtocolError``.
"""

from __future__ import annotations

import asyncio
import re
import struct
from dataclasses import dataclass
from enum import IntEnum

from tuner.errors import DeviceError, InternalError

_HEX_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")
_SHELL_HEADER = struct.Struct("<BI")
_SYNC_HEADER = struct.Struct("<4sI")
_STAT = struct.Struct("<3I")
CHUNK_BYTES = 1 << 16
"""SYNC_DATA_MAX: adbd drops the connection at more."""
_PATH_BYTES = 1024
"""What adbd reads of a path."""
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
    """What a ``shell,v2`` command said, up to its exit packet; without one it did not end."""
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
