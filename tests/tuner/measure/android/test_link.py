"""The way to a phone by its address: adb forgets phones, and what it forgot is looked for again."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.scripted_adb import OKAY, refusal, scripted_adb, shell_packet, text
from tuner.errors import DeviceError, ToolchainError
from tuner.measure.android.adb import AdbServer, Address
from tuner.measure.android.link import PhoneLink

PHONE = "127.0.0.1:5555"
CONNECTED = OKAY + text(f"already connected to {PHONE}")
GONE = refusal(f"device '{PHONE}' not found")
DONE = OKAY + shell_packet(1, b"out") + shell_packet(3, b"\0")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: a socket lies in it."""
    with tempfile.TemporaryDirectory(prefix="adb-") as name:
        yield Path(name)


def shell_by(folder: Path, *script: bytes) -> tuple[bytes, list[str]]:
    """The output of a command, and what adb was asked for it."""

    async def run() -> tuple[bytes, list[str]]:
        async with scripted_adb(folder, *script) as (_, adb):
            server = AdbServer(existing=Address(path=str(folder / "socket")))
            link = PhoneLink(PHONE, by_address=True)
            output = await link.shell(server, "echo out", 5)
            return output.stdout, adb.asked

    return asyncio.run(run())


def test_a_connection_that_adb_was_about_to_drop_is_made_anew(folder: Path) -> None:
    out, asked = shell_by(folder, CONNECTED, GONE, CONNECTED, OKAY, DONE)
    assert out == b"out"
    connect, transport = f"host:connect:{PHONE}", f"host:transport:{PHONE}"
    assert asked == [connect, transport, connect, transport, "shell,v2,raw:echo out"]


def test_a_phone_that_is_not_there_is_not_looked_for_for_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.measure.android.link._SETTLES_S", (0.0, 0.0))
    with pytest.raises(DeviceError, match="not found") as raised:
        shell_by(folder, *(CONNECTED, GONE) * 9)
    assert "check its cable or address" in str(raised.value)


def test_a_server_that_is_always_killed_is_not_started_for_ever(folder: Path) -> None:
    adb = folder / "adb"
    adb.write_text(f"#!/bin/sh\necho >>{folder}/starts\nkill -9 $$\n")
    adb.chmod(0o755)
    with pytest.raises(ToolchainError, match="killed whenever it starts"):
        asyncio.run(AdbServer(adb).client())
    assert (folder / "starts").read_text() == "\n" * 3
