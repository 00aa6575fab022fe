"""A stand-in for the adb server: answers by a script, to show what no real one does on demand."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tuner.measure.android.adb import AdbClient, Address

OKAY = b"OKAY"
HANG = None
"""In the place of an answer: nothing comes, and the connection stays open."""


def text(said: str) -> bytes:
    """An answer with a text."""
    return b"%04x" % len(said) + said.encode()


def refusal(reason: str) -> bytes:
    """An answer that says no."""
    return b"FAIL" + text(reason)


def shell_packet(kind: int, data: bytes) -> bytes:
    """1: output, 2: errors, 3: exit status."""
    return struct.pack("<BI", kind, len(data)) + data


class ScriptedAdb:
    """Gives the answers of ``script`` in turn, one for each request it reads; then closes the
    connection. ``asked`` keeps the requests. Of ``sync`` it takes bytes as they come."""

    def __init__(self, script: Sequence[bytes | None]) -> None:
        self.script = list(script)
        self.asked: list[str] = []
        self.sent = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while self.script:
                if self.asked[-1:] == ["sync:"]:
                    self.sent += await reader.read(1 << 20)
                else:
                    length = int(await reader.readexactly(4), 16)
                    self.asked.append((await reader.readexactly(length)).decode())
                answer = self.script.pop(0)
                if answer is HANG:
                    await reader.read()
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has gone
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def scripted_adb(
    folder: Path, *script: bytes | None
) -> AsyncIterator[tuple[AdbClient, ScriptedAdb]]:
    """A client, and the stand-in it talks to."""
    adb = ScriptedAdb(script)
    path = str(folder / "socket")
    server = await asyncio.start_unix_server(adb.serve, path)
    async with server:
        yield AdbClient(Address(path=path)), adb
