"""adb's frames: read whole however they are cut, and never taken for what they are not."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import DeviceError
from tuner.measure.android.adb import (
    ProtocolError,
    ShellOutput,
    read_file,
    read_shell,
    read_stat,
    read_status,
    read_sync_okay,
    read_text,
)

T = TypeVar("T")
Reader = Callable[[asyncio.StreamReader], Awaitable[T]]


def read(parser: Reader[T], pieces: Iterable[bytes]) -> T:
    """What ``parser`` makes of ``pieces`` and the end of the connection after them."""

    async def run() -> T:
        reader = asyncio.StreamReader()
        for piece in pieces:
            reader.feed_data(piece)
        reader.feed_eof()
        return await parser(reader)

    return asyncio.run(run())


def shell(reader: asyncio.StreamReader) -> Awaitable[ShellOutput]:
    return read_shell(reader, 1 << 16)


def pulled(reader: asyncio.StreamReader) -> Awaitable[bytes]:
    return read_file(reader, 1 << 20)


def packet(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


PARSERS: list[Reader[object]] = [
    read_text, read_status, shell, read_sync_okay, pulled, read_stat
]  # fmt: skip
said = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=6)


@given(said, st.integers(0, 255), st.lists(st.integers(0, 500)))
def test_a_command_is_read_whole_however_its_output_is_cut(
    said: list[tuple[int, bytes]], status: int, places: list[int]
) -> None:
    data = b"".join(packet(*one) for one in said) + packet(3, bytes([status]))
    output = read(shell, cut(data, places))
    assert output.stdout == b"".join(text for kind, text in said if kind == 1)
    assert output.stderr == b"".join(text for kind, text in said if kind == 2)
    assert output.status == status


@given(said, st.integers(0, 10_000))
def test_a_command_without_its_exit_packet_did_not_end(
    said: list[tuple[int, bytes]], keep: int
) -> None:
    """As where adbd is killed: adb's own client says status 0 then."""
    data = b"".join(packet(*one) for one in said) + packet(3, b"\0")
    with pytest.raises(ProtocolError):
        read(shell, [data[: keep % len(data)]])


@given(
    st.sampled_from(PARSERS),
    st.sampled_from([b"", b"FAIL", b"OKAY", b"DATA", b"DONE", b"STAT", b"ffff", b"\1"]),
    st.binary(max_size=100),
)
def test_whatever_comes_in_is_a_value_or_a_fault_of_the_device(
    parser: Reader[object], word: bytes, data: bytes
) -> None:
    with contextlib.suppress(DeviceError):
        read(parser, [word + data])
