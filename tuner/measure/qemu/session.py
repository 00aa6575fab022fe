"""The memory shared with the plugin: orders go in, counts come out.

Mirrors ``plugin/session.h``; the plugin refuses a session of another version. The addresses of
harness and candidate are those of ``harness/program.ld``, ``harness/call.S`` and
``harness/memory_map.h``.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuner.measure.cases import Argument
from tuner.measure.image import Image
from tuner.measure.qemu.cycles import weights
from tuner.measure.qemu.events import EVENT_COUNT, INDEX
from tuner.measure.qemu.model import SYSTEM, TimingModel
from tuner.problem.target import Target

WINDOW_BEGIN = 0x00010000
"""The packet that calls the candidate: program.ld puts it first."""
WINDOW_END = WINDOW_BEGIN + 4
"""The packet after it, which the candidate returns to (call.S)."""
MARKS_BEGIN = WINDOW_BEGIN + 8
"""Three packets that mark parallel loops: begin, task, end (call.S)."""
CANDIDATE_BEGIN = 0x00100000
"""Code from here on is the candidate's (program.ld)."""
CASE_BEGIN = 0x30000000
"""The views of the case under way."""
VTCM_BEGIN = 0xD8000000
STACK_BEGIN = 0xE0000000
"""The candidate's stack."""
STACK_BYTES = 0x00100000


_CALLS, _REGIONS, _DIMENSIONS = 32, 512, 6
_HEAD = struct.Struct("<2I")
_CALL = struct.Struct("<3I")
_REGION = struct.Struct(f"<4I{_DIMENSIONS}I{_DIMENSIONS}I")
BOUNDS_BYTES = _HEAD.size + _CALLS * _CALL.size + _REGIONS * _REGION.size


def packed_bounds(image: Image) -> bytes:
    """``struct bounds`` for the practice calls of ``image`` and its watched cases."""
    watched = image.watched_calls
    calls: list[bytes] = []
    regions: list[bytes] = []
    for number, case in enumerate(image.cases.cases[:watched]):
        calls.append(_CALL.pack(len(regions), len(case.arguments), image.view_bytes(number)))
        regions += [
            _region(argument, CASE_BEGIN + offset)
            for argument, offset in zip(case.arguments, image.view_offsets(number), strict=True)
        ]
    table = b"".join(calls).ljust(_CALLS * _CALL.size, b"\0")
    return _HEAD.pack(CASE_BEGIN, watched) + table + b"".join(regions)


def _region(argument: Argument, begin: int) -> bytes:
    size = argument.spec.element_bytes
    run = size
    outer: list[tuple[int, int]] = []
    for extent, stride in zip(
        reversed(argument.spec.shape), reversed(argument.layout.strides), strict=True
    ):
        if not outer and stride * size == run:
            run *= extent
        elif extent > 1:
            outer.insert(0, (extent, stride * size))
    unused = (0,) * (_DIMENSIONS - len(outer))
    extents, strides = ([pair[part] for pair in outer] for part in (0, 1))
    return _REGION.pack(
        *(begin, run, argument.spec.role == "output", len(outer)),
        *(*extents, *unused),
        *(*strides, *unused),
    )


_MAGIC, _VERSION = 0x53565848, 7
_RULES, _BLOCKS, _TRANSITIONS, _PACKETS = 512, 32768, 131072, 262144
_DETAILS, _SEGMENTS, _TEXT_BYTES = 1 << 20, 16384, 1 << 24
_KEEP_TEXT, _MODEL_MEMORY, _COLD_CACHES, _SERVES = 1, 2, 4, 8

_ORDERS = struct.Struct("<9I4x5Q")
_COSTS = struct.Struct(f"<{EVENT_COUNT}QQ2I")
_PLACES = struct.Struct("<6I")
_RESULTS = struct.Struct("<2Iq12I4Q")

Caches = Literal["none", "cold", "warm"]
"""State of the caches when the timed call begins: not modelled at all, empty, or as the same call
before left them."""

BLOCK = np.dtype(
    [
        ("address", "<u4"),
        ("packets", "<u4"),
        ("first_packet", "<u4"),
        ("branch", "<u4"),
    ]
)
BRANCH = np.dtype([("address", "<u4"), ("first_target", "<u4"), ("went_to", "<u8", 2)])
TRANSITION = np.dtype(
    [
        ("block", "<u4"),
        ("stalls", "<u4"),
        ("details", "<u4"),
        ("next_state", "<u4"),
        ("count", "<u8"),
    ]
)
PACKET = np.dtype(
    [
        ("address", "<u4"),
        ("text", "<u4"),
        ("traits", "<u4"),
        ("unused", "<u4"),
        ("l1_misses", "<u8"),
        ("l2_misses", "<u8"),
        ("line_splits", "<u8"),
        ("store_to_load", "<u8"),
    ]
)
DETAIL = np.dtype([("stalls", "u1"), ("cause", "u1")])
SEGMENT = np.dtype([("loop", "<u4"), ("call", "<u4"), ("counts", "<u8", EVENT_COUNT)])

Table = NDArray[Any]


class State(IntEnum):
    """How a run ended, as far as the plugin could see (``enum session_state``)."""

    PREPARED = 0
    LOADED = 1
    FINISHED = 2
    CUT_OFF = 3
    RUNAWAY = 4
    SYSTEM_CALL = 5
    STRAY = 6
    TABLE_FULL = 7
    UNREADABLE = 8
    NOT_CODE = 9
    HIDDEN = 10
    UNSTEADY = 11
    READ_OUTSIDE = 12
    WROTE_OUTSIDE = 13
    MISALIGNED = 14


@dataclass(frozen=True)
class Orders:
    """The plugin's orders (``struct orders``). 0 cycles means no limit.

    ``target`` gives the sizes of caches and VTCM, and the contexts that share parallel loops.
    ``candidate_bytes`` is the size of the candidate's code: nothing beyond it may run. A program
    that ``serves`` takes messages, and each of its calls is timed, in caches as those before left
    them (:mod:`tuner.network.running.image`).
    """

    model: TimingModel
    target: Target
    caches: Caches = "warm"
    candidate_bytes: int = 1 << 24
    timed_cycles: int = 0
    untimed_factor: int = 16
    untimed_slack: int = 1_000_000
    cpu_seconds: int = 60
    address_space_bytes: int = 1 << 34
    output_bytes: int = 1 << 16
    keep_text: bool = False
    serves: bool = False

    @property
    def timed_call(self) -> int:
        """The call that is timed, counted from 1: before it may come one that fills the caches."""
        return 2 if self.caches == "warm" else 1

    @property
    def flags(self) -> int:
        """``enum session_flags``."""
        memory = {"none": 0, "cold": _MODEL_MEMORY | _COLD_CACHES, "warm": _MODEL_MEMORY}
        asked = (_KEEP_TEXT if self.keep_text else 0) | (_SERVES if self.serves else 0)
        return memory[self.caches] | asked

    def packed(self) -> bytes:
        """``struct orders``."""
        rules = self.model.rules
        return b"".join(
            (
                _ORDERS.pack(
                    *(_MAGIC, _VERSION, self.flags, os.getpid()),
                    *(WINDOW_BEGIN, WINDOW_END),
                    *(CANDIDATE_BEGIN, CANDIDATE_BEGIN + self.candidate_bytes, self.cpu_seconds),
                    *(self.address_space_bytes, self.output_bytes, self.timed_cycles),
                    *(self.untimed_factor, self.untimed_slack),
                ),
                self._costs(),
                self.model.hierarchy.packed(self.target),
                _PLACES.pack(self.timed_call, MARKS_BEGIN, VTCM_BEGIN, STACK_BEGIN, STACK_BYTES, 0),
                rules.memory,
                struct.pack("<H", rules.count),
                rules.packed,
            )
        )

    def _costs(self) -> bytes:
        """Rounded down: the plugin must not think a call costs more than it does."""
        parameters = self.model.parameters
        in_units = np.floor(weights(parameters) * 256).astype(np.int64)
        # The plugin adds up issue and dependency stalls by itself.
        in_units[[INDEX["packets"], INDEX["stalls"]]] = 0
        of_byte = int(65536 / parameters.ddr_bandwidth)
        return _COSTS.pack(*in_units.tolist(), of_byte, self.target.hvx_contexts, 0)


_RULE_BYTES = 28
_ORDERS_BYTES = (
    _ORDERS.size + _COSTS.size + SYSTEM.size + _PLACES.size + 10 + 2 + _RULES * _RULE_BYTES
)
_BOUNDS_AT = -(-_ORDERS_BYTES // 8) * 8
_RESULTS_AT = -(-(_BOUNDS_AT + BOUNDS_BYTES) // 8) * 8


@dataclass(frozen=True)
class Results:
    """The plugin's output. ``address`` is the start of the block last entered.

    ``packets`` and ``cycles`` (issue and dependency stalls) are of the timed call; ``spent`` is
    what a call that was cut off had cost by then, by all causes. ``sandbox_layers`` is what
    device.py reads. ``vtcm_used_bytes`` reach to the last vector of VTCM that was touched.
    ``touched`` and ``touched_bytes`` tell of the access that ended the run, ``address`` then its
    packet.
    """

    state: State
    address: int
    system_call: int
    calls: int
    packets: int
    cycles: int
    spent: int
    sandbox_layers: int
    vtcm_used_bytes: int
    touched: int
    touched_bytes: int
    blocks: Table
    branches: Table
    transitions: Table
    packet_table: Table
    details: Table
    segments: Table


class Session:
    """Shared memory for one run. Close it when the results are read. Accesses of the calls in
    ``bounds`` (:func:`tuner.measure.qemu.session.packed_bounds`) are checked against them."""

    def __init__(self, orders: Orders, bounds: bytes = b"") -> None:
        self._offsets = _table_offsets()
        self.descriptor = os.memfd_create("session", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.descriptor, self._offsets["end"])
            self._memory = mmap.mmap(self.descriptor, self._offsets["end"])
        except OSError:
            os.close(self.descriptor)
            raise
        packed = orders.packed()
        self._memory[: len(packed)] = packed
        self._memory[_BOUNDS_AT : _BOUNDS_AT + len(bounds)] = bounds

    def results(self) -> Results:
        """A copy of what the plugin has written so far."""
        state, address, number, calls, *rows, packets, cycles, spent, _ = _RESULTS.unpack_from(
            self._memory, _RESULTS_AT
        )
        blocks, transitions, packet_rows, details, _, segments, branches, layers, *rest = rows
        vtcm, touched, touched_bytes = rest
        return Results(
            state=State(state),
            address=address,
            system_call=number,
            calls=calls,
            packets=packets,
            cycles=cycles,
            spent=spent,
            sandbox_layers=layers,
            vtcm_used_bytes=vtcm,
            touched=touched,
            touched_bytes=touched_bytes,
            blocks=self._table("blocks", BLOCK, blocks),
            branches=self._table("branches", BRANCH, branches),
            transitions=self._table("transitions", TRANSITION, transitions),
            packet_table=self._table("packets", PACKET, packet_rows),
            details=self._table("details", DETAIL, details),
            segments=self._table("segments", SEGMENT, segments),
        )

    def text(self, offset: int) -> str:
        """Disassembly kept at ``offset`` (``packet_table["text"]``)."""
        start = self._offsets["text"] + offset
        return self._memory[start : self._memory.find(b"\0", start)].decode(errors="replace")

    def _table(self, name: str, dtype: np.dtype[Any], count: int) -> Table:
        return np.frombuffer(self._memory, dtype, count, self._offsets[name]).copy()

    def close(self) -> None:
        """Frees the memory."""
        self._memory.close()
        os.close(self.descriptor)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _table_offsets() -> dict[str, int]:
    sizes = {
        "blocks": BLOCK.itemsize * _BLOCKS,
        "branches": BRANCH.itemsize * _BLOCKS,
        "transitions": TRANSITION.itemsize * _TRANSITIONS,
        "packets": PACKET.itemsize * _PACKETS,
        "details": DETAIL.itemsize * _DETAILS,
        "segments": SEGMENT.itemsize * _SEGMENTS,
        "text": _TEXT_BYTES,
    }
    offsets = {}
    at = _RESULTS_AT + _RESULTS.size
    for name, size in sizes.items():
        offsets[name] = at
        at += size
    return {**offsets, "end": at}
