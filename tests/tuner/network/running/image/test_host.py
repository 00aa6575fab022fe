"""The host's queue and the DSP's side in one process: what crosses when, and what is refused."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tuner.codegen.toolchain import NativePart, built
from tuner.network.graph import Array
from tuner.network.running.image.host import Argument, Host, HostError, Status, Transport, typed
from tuner.network.running.image.linking import HOST, SERVING, SERVING_HEADERS
from tuner.problem.buffers import BufferSpec

ADD, REFUSE = 0, 1
ARENA_BYTES, ALIGNMENT = 1 << 16, 128
EIGHT = BufferSpec("x", "uint8", (8,), "input")


@cache
def library() -> ctypes.CDLL:
    loopback = Path(__file__).with_name("loopback.c")
    sources = (HOST.sources[0], *SERVING, loopback)
    part = NativePart(
        "network-loopback",
        "host",
        sources,
        SERVING_HEADERS,
        flags=("-Wno-cast-function-type-mismatch",),
    )
    return typed(ctypes.CDLL(str(built(part))))


@pytest.fixture
def host() -> Iterator[Host]:
    transport = Transport()
    library().loopback_open(ctypes.byref(transport))
    host = Host(library(), transport)
    yield host
    host.close()


def bytes_of(*values: int) -> Array:
    return np.array(values, np.uint8)


def eight(host: Host, value: int) -> int:
    """A buffer of eight bytes."""
    buffer = host.alloc(8)
    host.copy_in(buffer, bytes_of(*[value] * 8))
    return buffer


def add(host: Host, a: int, b: int, out: int) -> None:
    host.call(ADD, [Argument.of(buffer, EIGHT) for buffer in (a, b, out)])


def refused(do: Callable[[], object]) -> Status:
    with pytest.raises(HostError) as refusal:
        do()
    return refusal.value.status


def test_calls_wait_for_a_copy_and_cross_with_it(host: Host) -> None:
    a, b = eight(host, 3), eight(host, 4)
    before = host.counts()
    total = host.alloc(8)
    add(host, a, b, total)
    add(host, total, b, total)
    assert host.counts() == before
    assert host.copy_out(total, 8).tolist() == [11] * 8
    crossed = host.counts().since(before)
    assert (crossed.crossings, crossed.batches, crossed.calls) == (1, 1, 2)
    assert (crossed.copies_out, crossed.bytes_out, crossed.copies_in) == (1, 8, 0)
    assert crossed.message_bytes > 2 * 3 * ctypes.sizeof(Argument)


UNKNOWN = 77


@pytest.mark.parametrize("handle", ["unknown", "released"])
def test_a_bad_handle_is_an_answer(host: Host, handle: str) -> None:
    a = eight(host, 5)
    gone = host.alloc(8)
    host.free(gone)
    again = host.alloc(8)  # in its place
    bad = {"unknown": UNKNOWN, "none": 0, "released": gone, "beyond": 0xFFFF}[handle]
    host.synchronize()
    assert gone != again
    assert refused(lambda: host.copy_out(bad, 8)) is Status.BAD_BUFFER
    assert refused(lambda: host.copy_in(bad, bytes_of(1))) is Status.BAD_BUFFER
    add(host, a, bad, a)
    assert refused(host.synchronize) is Status.BAD_BUFFER
    host.free(bad)
    assert refused(host.synchronize) is Status.BAD_BUFFER
    assert host.copy_out(a, 8).tolist() == [5] * 8


def test_a_bad_size_is_an_answer(host: Host) -> None:
    a = eight(host, 5)
    assert refused(lambda: host.copy_out(a, 9)) is Status.BAD_SIZE
    assert refused(lambda: host.copy_in(a, np.zeros(5000, np.uint8))) is Status.BAD_SIZE
    nine = BufferSpec("x", "uint8", (9,), "input")
    small = BufferSpec("x", "uint8", (7,), "input")
    words = BufferSpec("x", "int32", (2,), "input")
    wide = Argument.of(a, EIGHT)
    wide.stride[0] = 0xFFFFFFFF
    empty = Argument.of(a, EIGHT)
    empty.extent[0] = 0
    many = Argument.of(a, EIGHT)
    many.dimensions = 7
    fine = Argument.of(a, EIGHT)
    for bad in (
        *(Argument.of(a, nine), Argument.of(a, small), Argument.of(a, EIGHT, 1)),
        *(Argument.of(a, EIGHT, 1 << 31), Argument.of(a, words, 2), wide, empty, many),
    ):
        host.call(ADD, [fine, bad, fine])
        assert refused(host.synchronize) is Status.BAD_SIZE
    host.alloc(0)
    assert refused(host.synchronize) is Status.BAD_SIZE
    assert host.copy_out(a, 8).tolist() == [5] * 8


def test_a_function_that_fails_ends_its_queue(host: Host) -> None:
    """What came before it is done, what comes after is not, the copy neither."""
    a, b = eight(host, 1), eight(host, 6)
    add(host, a, b, a)
    host.call(REFUSE, [Argument.of(a, EIGHT)])
    add(host, a, b, b)
    with pytest.raises(HostError) as failed:
        host.copy_in(a, bytes_of(*[0] * 8))
    assert (failed.value.status, failed.value.done) == (Status.CALL_FAILED, 1)
    assert failed.value.result == -7
    assert host.copy_out(a, 8).tolist() == [7] * 8
    assert host.copy_out(b, 8).tolist() == [6] * 8


def test_buffers_never_overlap(host: Host) -> None:
    rng = random.Random(5)
    alive: dict[int, tuple[int, int]] = {}
    refusals: list[Status] = []
    for step in range(600):
        if alive and rng.random() < 0.45:
            buffer = rng.choice(list(alive))
            size, value = alive.pop(buffer)
            assert set(host.copy_out(buffer, size).tolist()) == {value}
            host.free(buffer)
            continue
        size = rng.choice([1, 127, 128, 129, 5000])
        buffer = host.alloc(size)
        try:
            host.copy_in(buffer, np.full(size, step % 251, np.uint8))
        except HostError as error:
            refusals.append(error.status)
        else:
            alive[buffer] = size, step % 251
    assert set(refusals) == {Status.NO_MEMORY}
    for buffer, (size, value) in alive.items():
        assert set(host.copy_out(buffer, size).tolist()) == {value}


MAGIC, VERSION, RUN, OPEN = 0x4E565848, 2, 0, 3


@pytest.mark.parametrize(
    "request_",
    [
        struct.pack("<7I", MAGIC + 1, VERSION, RUN, 0, 0, 0, 0),
        struct.pack("<7I", MAGIC, VERSION, RUN, 1 << 20, 0, 0, 0),
        struct.pack("<7I3I", MAGIC, VERSION, RUN, 12, 0, 0, 0, 2, 0, 0xFFFFFFFF),
        struct.pack("<7I3I", MAGIC, VERSION, RUN, 12, 0, 0, 0, 3, 0, 8),
    ],
)
def test_a_message_that_makes_no_sense_is_refused(host: Host, request_: bytes) -> None:
    assert library().loopback_receives(request_, len(request_)) == Status.BAD_MESSAGE
