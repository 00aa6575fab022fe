"""The adb client against the real adb server and the real adbd."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from tests.rig.phones import Phone as EmulatedPhone
from tests.rig.phones import running_phones
from tests.tuner.measure.android.phones import adb_of_the_rig
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import DeviceError
from tuner.measure.android.adb import (
    AdbClient,
    AdbServer,
    Push,
    RefusedError,
)

pytestmark = pytest.mark.slow

T = TypeVar("T")
HOME = "/data/local/tmp"


@pytest.fixture(scope="module")
def phone(private_state: None) -> Iterator[EmulatedPhone]:
    with adb_of_the_rig(), running_phones(1) as [emulated]:
        yield emulated


def with_client(phone: EmulatedPhone, act: Callable[[AdbClient], Awaitable[T]]) -> T:
    async def run() -> T:
        server = AdbServer()
        try:
            client = await server.client()
            await client.connect(phone.address)
            return await act(client)
        finally:
            server.close()

    return asyncio.run(run())


@pytest.mark.parametrize("status", [255])
def test_exit_statuses_and_both_outputs_come_through(phone: EmulatedPhone, status: int) -> None:
    command = f"echo out; echo err >&2; exit {status}"
    output = with_client(phone, lambda c: c.shell(phone.address, command, 10))
    assert (output.stdout, output.stderr, output.status) == (b"out\n", b"err\n", status)


@pytest.mark.parametrize("size", [0, 3_000_000])
def test_files_come_back_as_they_went(phone: EmulatedPhone, size: int) -> None:
    content = os.urandom(size)
    path = f"{HOME}/new/folder/file"

    async def act(client: AdbClient) -> bytes:
        await client.push(phone.address, [Push(path, content, 0o755)], PATIENCE_S)
        stat = await client.stat(phone.address, path, 5)
        assert stat is not None
        assert stat.size == size
        back = await client.pull(phone.address, path, PATIENCE_S)
        await client.shell(phone.address, f"rm -r {HOME}/new", 5)
        assert await client.stat(phone.address, path, 5) is None
        return back

    assert with_client(phone, act) == content


def test_refusals_come_with_the_phones_words(phone: EmulatedPhone) -> None:
    async def act(client: AdbClient) -> None:
        with pytest.raises(RefusedError, match="No such file"):
            await client.pull(phone.address, f"{HOME}/nothing", 5)
        with pytest.raises(RefusedError, match=r"[Rr]ead-only|denied"):
            await client.push(phone.address, [Push("/vendor/x", b"x")], 5)
        with pytest.raises(RefusedError, match="not found"):
            await client.shell("nobody", "true", 5)
        with pytest.raises(RefusedError, match="failed to connect"):
            await client.connect("127.0.0.1:1")

    with_client(phone, act)


def test_a_deadline_ends_a_command_that_does_not(phone: EmulatedPhone) -> None:
    with pytest.raises(DeviceError, match=r"within 0\.3 s"):
        with_client(phone, lambda c: c.shell(phone.address, "sleep 30", 0.3))
    phone.end_processes()
