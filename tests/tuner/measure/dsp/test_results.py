"""The driver's results: whole and of this run, or no results."""

from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import DeviceError
from tuner.measure.dsp.queue import Kind, read_records, results_of

NONCE = bytes(range(16))


def record(
    kind: Kind, entry: int = 0, state: int = 0, samples: tuple[int, ...] = (), nonce: bytes = NONCE
) -> bytes:
    head = struct.pack("<2I16s4IQ", 0x52565848, kind, nonce, entry, state, 0, len(samples), 5)
    body = head + bytes(256) + struct.pack(f"<{len(samples)}Q", *samples)
    return body + struct.pack("<I", zlib.crc32(body))


def whole(entries: int) -> list[bytes]:
    turns = [
        one
        for n in range(entries)
        for one in (
            record(Kind.ENTRY_BEGINS, n),
            record(Kind.ENTRY_ENDS, n, samples=(7, 8 + n)),
        )
    ]
    return [record(Kind.BEGIN, state=3), *turns, record(Kind.END, entries)]


def test_a_whole_run_is_told_in_order() -> None:
    results = results_of(read_records(b"".join(whole(2)), NONCE), 2)
    assert results.complete
    assert [one.samples for one in results.ended] == [(7, 8), (7, 9)]
    assert [one.overhead_cycles for one in results.ended] == [5, 5]
    assert (results.begun, results.gave_up, results.power) == (None, None, 3)


@given(st.integers(0, 10_000))
def test_a_run_that_is_cut_off_anywhere_is_not_complete(keep: int) -> None:
    data = b"".join(whole(2))
    results = results_of(read_records(data[: keep % len(data)], NONCE), 2)
    assert not results.complete
    assert all(one.samples[0] == 7 for one in results.ended)
    if results.begun is not None:
        assert results.begun == len(results.ended)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_makes_another_result(at: int, change: int) -> None:
    data = bytearray(b"".join(whole(2)))
    data[at % len(data)] ^= change
    try:
        results = results_of(read_records(bytes(data), NONCE), 2)
    except DeviceError:
        return
    assert not results.complete
    assert [one.samples for one in results.ended] == [(7, 8), (7, 9)][: len(results.ended)]


@given(st.binary(max_size=2000))
def test_garbage_is_no_result(data: bytes) -> None:
    with contextlib.suppress(DeviceError):
        assert read_records(data, NONCE) == []


def test_results_of_another_run_are_refused() -> None:
    with pytest.raises(DeviceError, match="another run"):
        read_records(record(Kind.BEGIN, nonce=bytes(16)), NONCE)


@pytest.mark.parametrize(
    "parts",
    [
        [record(Kind.BEGIN), record(Kind.ENTRY_ENDS)],
        [*whole(1), record(Kind.END, 1)],
        [record(Kind.BEGIN), record(Kind.ENTRY_BEGINS), record(Kind.ENTRY_ENDS, state=99)],
    ],
)
def test_records_that_do_not_follow_from_the_queue_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(DeviceError):
        results_of(read_records(b"".join(parts), NONCE), 1)
