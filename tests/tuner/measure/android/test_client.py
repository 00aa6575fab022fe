"""The adb client against a stand-in that answers by a script: refusals, silence, nonsense."""

from __future__ import annotations

import asyncio
import struct
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.rig.scripted_adb import (
    HANG,
    OKAY,
    ScriptedAdb,
    scripted_adb,
    shell_packet,
    text,
)
from tuner.errors import DeviceError, ToolchainError
from tuner.measure.android.adb import (
    AdbClient,
    Push,
    RefusedError,
    find_adb,
)

T = TypeVar("T")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: a socket lies in it."""
    with tempfile.TemporaryDirectory(prefix="adb-") as name:
        yield Path(name)


def ask(
    folder: Path, script: list[bytes | None], act: Callable[[AdbClient], Awaitable[T]]
) -> tuple[T, ScriptedAdb]:
    async def run() -> tuple[T, ScriptedAdb]:
        async with scripted_adb(folder, *script) as (client, adb):
            return await act(client), adb

    return asyncio.run(run())


def test_a_command_goes_to_its_phone_and_brings_back_its_status(folder: Path) -> None:
    said = shell_packet(1, b"hello\n") + shell_packet(2, b"oh\n") + shell_packet(3, b"\7")
    output, adb = ask(folder, [OKAY, OKAY + said], lambda c: c.shell("S1", "echo hello", 5))
    assert (output.stdout, output.stderr, output.status) == (b"hello\n", b"oh\n", 7)
    assert adb.asked == ["host:transport:S1", "shell,v2,raw:echo hello"]


@pytest.mark.parametrize("script", [[HANG], [OKAY, HANG], [OKAY, OKAY + b"\1"]])
def test_a_phone_that_says_nothing_is_given_up(folder: Path, script: list[bytes | None]) -> None:
    with pytest.raises(DeviceError, match=r"within 0\.1 s|broke off"):
        ask(folder, script, lambda c: c.shell("S1", "true", 0.1))


def test_a_full_disk_is_told(folder: Path) -> None:
    no = struct.pack("<4sI", b"FAIL", 23) + b"No space left on device"
    with pytest.raises(RefusedError, match="No space left"):
        ask(folder, [OKAY, OKAY, no], lambda c: c.push("S1", [Push("/a", b"x")], 5))


@pytest.mark.parametrize("said", ["failed to connect to 'h:1': Connection refused", ""])
def test_a_failed_connect_is_a_failure_though_the_server_says_okay(folder: Path, said: str) -> None:
    with pytest.raises(RefusedError):
        ask(folder, [OKAY + text(said)], lambda c: c.connect("h:1"))


def test_a_missing_adb_names_the_package(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("HVXTUNE_ADB", raising=False)
    with pytest.raises(ToolchainError, match="the package adb"):
        find_adb()
    monkeypatch.setenv("HVXTUNE_ADB", "/nowhere/adb")
    with pytest.raises(ToolchainError, match="/nowhere/adb is not a program"):
        find_adb()
