"""The host's side of a network (``hvxtune_network.h``) in Python, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from math import prod

import numpy as np

from tuner.codegen.toolchain import built
from tuner.errors import InternalError
from tuner.network.graph import Array
from tuner.network.running.image.linking import HOST
from tuner.network.running.storage import Storage, loops
from tuner.problem.buffers import BufferSpec

_DIMENSIONS = 6
_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64


class Status(IntEnum):
    """``enum hvxtune_status``."""

    OK = 0
    BAD_BUFFER = 1
    BAD_FUNCTION = 2
    BAD_SIZE = 3
    NO_MEMORY = 4
    CALL_FAILED = 5
    BAD_MESSAGE = 6
    NO_TRANSPORT = 7


class HostError(Exception):
    """A flush that failed: ``status``, how many entries of the queue were done before, and the
    value of the last function."""

    def __init__(self, status: Status, done: int, result: int) -> None:
        super().__init__(f"{status.name} after {done} entries, the last function returned {result}")
        self.status, self.done, self.result = status, done, result


@dataclass(frozen=True)
class Counts:
    """``struct hvxtune_counts``: what crossed."""

    crossings: int
    batches: int
    copies_in: int
    copies_out: int
    bytes_in: int
    bytes_out: int
    message_bytes: int
    calls: int

    def since(self, before: Counts) -> Counts:
        """The counts of the time after ``before``."""
        return Counts(*(getattr(self, n) - getattr(before, n) for n in Counts.__annotations__))


class Argument(ctypes.Structure):
    """``struct hvxtune_argument``."""

    _fields_ = (
        ("buffer", _U32),
        ("offset_bytes", _U32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("dimensions", ctypes.c_uint16),
        ("extent", _U32 * _DIMENSIONS),
        ("stride", _U32 * _DIMENSIONS),
    )

    @classmethod
    def of(cls, buffer: int, spec: BufferSpec, offset_bytes: int = 0) -> Argument:
        """A dense buffer as a kernel takes it (contract ``static``)."""
        extents = spec.shape[::-1]
        strides = [prod(extents[:n]) for n in range(len(extents))]
        dtype = np.dtype(spec.dtype)
        return cls(
            *(buffer, offset_bytes, "iuf".index(dtype.kind), dtype.itemsize * 8, len(extents)),
            *((_U32 * _DIMENSIONS)(*extents), (_U32 * _DIMENSIONS)(*strides)),
        )

    @classmethod
    def stored(cls, source: tuple[int, Storage], target: tuple[int, Storage]) -> list[Argument]:
        """The buffers of a tensor in two storages, for
        :data:`tuner.network.running.image.REPACK`."""
        found = loops(source[1], target[1])[::-1]
        if len(found) > _DIMENSIONS:
            raise InternalError(f"a tensor of {len(found)} dimensions is repacked")
        found += [(1, 0, 0)] * (_DIMENSIONS - len(found))
        extents, *strides = zip(*found, strict=True)
        return [
            cls(
                *(buffer, storage.offset_bytes, 1, 8, _DIMENSIONS),
                *((_U32 * _DIMENSIONS)(*extents), (_U32 * _DIMENSIONS)(*own)),
            )
            for (buffer, storage), own in zip((source, target), strides, strict=True)
        ]


class Transport(ctypes.Structure):
    """``struct hvxtune_transport``."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("send", ctypes.c_void_p),
        ("receive", ctypes.c_void_p),
    )


class _Counts(ctypes.Structure):
    _fields_ = tuple((name, _U64) for name in Counts.__annotations__)


class _Answer(ctypes.Structure):
    _fields_ = (("status", _U32), ("done", _U32), ("result", ctypes.c_int32))


class Dsp(ctypes.Structure):
    """``struct hvxtune_dsp``."""

    _fields_ = (("functions", _U32), ("alignment_bytes", _U32), ("memory_bytes", _U32))


_POINTER = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[list[type], type | None]] = {
    "hvxtune_open": ([_POINTER, ctypes.POINTER(_POINTER)], ctypes.c_int),
    "hvxtune_close": ([_POINTER], None),
    "hvxtune_alloc": ([_POINTER, _U32], _U32),
    "hvxtune_free": ([_POINTER, _U32], ctypes.c_int),
    "hvxtune_fetch": ([_POINTER, _U32, _U32, _U32], ctypes.c_int),
    "hvxtune_call": ([_POINTER, _U32, _POINTER, _U32], ctypes.c_int),
    "hvxtune_copy_in": ([_POINTER, _U32, _U32, _POINTER, _U32], ctypes.c_int),
    "hvxtune_copy_out": ([_POINTER, _U32, _U32, _POINTER, _U32], ctypes.c_int),
    "hvxtune_synchronize": ([_POINTER], ctypes.c_int),
    "hvxtune_counted": ([_POINTER], _Counts),
    "hvxtune_answered": ([_POINTER], _Answer),
    "hvxtune_described": ([_POINTER], Dsp),
}


def typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """``library`` with the types of all that ``hvxtune_network.h`` declares."""
    for name, (arguments, made) in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, made
    return library


@cache
def host_library() -> ctypes.CDLL:
    """The host's side with pipes for a transport, built on first use."""
    library = typed(ctypes.CDLL(str(built(HOST))))
    library.fastrpc_stand_in.argtypes = [_POINTER, *[ctypes.c_int] * 2, ctypes.c_double, _POINTER]
    library.fastrpc_stand_in.restype = None
    return library


class Host:
    """A context. Methods raise :class:`HostError` where the C functions do not return 0."""

    def __init__(self, library: ctypes.CDLL, transport: Transport) -> None:
        self._library, self._transport = library, transport
        self._context = _POINTER()
        status = library.hvxtune_open(ctypes.byref(transport), ctypes.byref(self._context))
        if status:
            raise HostError(Status(status), 0, 0)

    def alloc(self, size_bytes: int) -> int:
        """A new buffer."""
        buffer = int(self._library.hvxtune_alloc(self._context, size_bytes))
        if buffer == 0:
            self._check(self._answer().status or Status.NO_MEMORY)
        return buffer

    def free(self, buffer: int) -> None:
        """Releases ``buffer`` once all that is queued is done."""
        self._check(self._library.hvxtune_free(self._context, buffer))

    def fetch(self, buffer: int, offset_bytes: int, size_bytes: int) -> None:
        """Queues a fetch to L2 while the next call runs."""
        self._check(self._library.hvxtune_fetch(self._context, buffer, offset_bytes, size_bytes))

    def call(self, function: int, arguments: Sequence[Argument]) -> None:
        """Queues a call."""
        packed = (Argument * len(arguments))(*arguments)
        self._check(self._library.hvxtune_call(self._context, function, packed, len(arguments)))

    def copy_in(self, buffer: int, data: Array) -> None:
        """Flushes, and fills the beginning of ``buffer`` with ``data`` (bytes)."""
        given = np.ascontiguousarray(data)
        self._check(
            self._library.hvxtune_copy_in(self._context, buffer, 0, given.ctypes.data, given.nbytes)
        )

    def copy_out(self, buffer: int, size_bytes: int) -> Array:
        """Flushes; the first ``size_bytes`` of ``buffer``: (``size_bytes``,)."""
        made = np.empty(size_bytes, np.uint8)
        self._check(
            self._library.hvxtune_copy_out(self._context, buffer, 0, made.ctypes.data, size_bytes)
        )
        return made

    def synchronize(self) -> None:
        """Flushes."""
        self._check(self._library.hvxtune_synchronize(self._context))

    def counts(self) -> Counts:
        """All that crossed so far."""
        found = self._library.hvxtune_counted(self._context)
        return Counts(*(int(getattr(found, name)) for name in Counts.__annotations__))

    @property
    def dsp(self) -> Dsp:
        """The DSP as it introduced itself."""
        described: Dsp = self._library.hvxtune_described(self._context)
        return described

    def close(self) -> None:
        """Frees the context; what waits is dropped."""
        self._library.hvxtune_close(self._context)
        self._context = _POINTER()

    def _answer(self) -> _Answer:
        answer: _Answer = self._library.hvxtune_answered(self._context)
        return answer

    def _check(self, status: int) -> None:
        if status:
            answer = self._answer()
            raise HostError(Status(status), answer.done, answer.result)
