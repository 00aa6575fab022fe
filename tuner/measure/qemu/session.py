"""The memory shared with the plugin: orders go in, counts come out.

Mirrors ``plugin/session.h``; the plugin refuses a session of another version.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.measure.qemu.rules import Rules

_MAGIC, _VERSION = 0x53565848, 2
_RULES, _BLOCKS, _TRANSITIONS, _PACKETS = 512, 32768, 131072, 262144
_DETAILS, _TEXT_BYTES = 1 << 20, 1 << 24
_KEEP_TEXT = 1

_ORDERS = struct.Struct("<9I4x5Q")
_RESULTS = struct.Struct("<2Iq7I4x3Q")
_ORDERS_BYTES = -(-(_ORDERS.size + 10 + 2 + _RULES * 28) // 8) * 8

BLOCK = np.dtype([("address", "<u4"), ("packets", "<u4"), ("first_packet", "<u4")])
TRANSITION = np.dtype(
    [
        ("block", "<u4"),
        ("stalls", "<u4"),
        ("details", "<u4"),
        ("next_state", "<u4"),
        ("count", "<u8"),
    ]
)
PACKET = np.dtype([("address", "<u4"), ("text", "<u4")])
DETAIL = np.dtype([("stalls", "u1"), ("cause", "u1")])

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


@dataclass(frozen=True)
class Orders:
    """What the plugin is told. Addresses are the candidate's; 0 cycles means no limit.

    ``candidate_bytes`` is the size of the code from ``candidate_begin`` on: nothing beyond it may
    run.
    """

    window_begin: int
    window_end: int
    candidate_begin: int
    rules: Rules
    candidate_bytes: int = 1 << 24
    timed_cycles: int = 0
    untimed_factor: int = 16
    untimed_slack: int = 1_000_000
    cpu_seconds: int = 60
    address_space_bytes: int = 1 << 34
    output_bytes: int = 1 << 16
    keep_text: bool = False


@dataclass(frozen=True)
class Results:
    """What the plugin wrote. ``address`` is the start of the block last entered.

    ``packets`` and ``cycles`` are of the timed call. ``sandbox_layers`` is what containment.py
    reads.
    """

    state: State
    address: int
    system_call: int
    calls: int
    packets: int
    cycles: int
    sandbox_layers: int
    blocks: Table
    transitions: Table
    packet_table: Table
    details: Table


class Session:
    """Shared memory for one run. Close it when the results are read."""

    def __init__(self, orders: Orders) -> None:
        self._offsets = _table_offsets()
        self.descriptor = os.memfd_create("session", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.descriptor, self._offsets["end"])
            self._memory = mmap.mmap(self.descriptor, self._offsets["end"])
        except OSError:
            os.close(self.descriptor)
            raise
        flags = _KEEP_TEXT if orders.keep_text else 0
        _ORDERS.pack_into(
            self._memory,
            0,
            _MAGIC,
            _VERSION,
            flags,
            os.getpid(),
            orders.window_begin,
            orders.window_end,
            orders.candidate_begin,
            orders.candidate_begin + orders.candidate_bytes,
            orders.cpu_seconds,
            orders.address_space_bytes,
            orders.output_bytes,
            orders.timed_cycles,
            orders.untimed_factor,
            orders.untimed_slack,
        )
        at = _ORDERS.size
        tail = orders.rules.memory + struct.pack("<H", orders.rules.count) + orders.rules.packed
        self._memory[at : at + len(tail)] = tail

    def results(self) -> Results:
        """A copy of what the plugin has written so far."""
        state, address, number, calls, blocks, transitions, packets, details, _, layers, *counts = (
            _RESULTS.unpack_from(self._memory, _ORDERS_BYTES)
        )
        return Results(
            state=State(state),
            address=address,
            system_call=number,
            calls=calls,
            packets=counts[0],
            cycles=counts[1],
            sandbox_layers=layers,
            blocks=self._table("blocks", BLOCK, blocks),
            transitions=self._table("transitions", TRANSITION, transitions),
            packet_table=self._table("packets", PACKET, packets),
            details=self._table("details", DETAIL, details),
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
        "transitions": TRANSITION.itemsize * _TRANSITIONS,
        "packets": PACKET.itemsize * _PACKETS,
        "details": DETAIL.itemsize * _DETAILS,
        "text": _TEXT_BYTES,
    }
    offsets = {}
    at = _ORDERS_BYTES + _RESULTS.size
    for name, size in sizes.items():
        offsets[name] = at
        at += size
    return {**offsets, "end": at}
