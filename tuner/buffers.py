"""Arguments of a kernel and how a contract lays its buffers out in memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from tuner.contract import Contract
from tuner.target import Target


class BufferSpec(NamedTuple):
    """One argument of a kernel. A tuple, because each best-query makes some, and a frozen
    dataclass takes four times as long to make.

    ``shape`` is in NumPy order, outermost first; the innermost dimension is always dense.
    ``dtype`` is a NumPy name (``uint8``, ``int8``, ``int32``, ``uint32``). ``promised`` is false
    for small tables (3x3 weights, say) to which the ``stride`` and ``extent`` promises do not
    apply; the host alignment applies to all. ``mins`` are the coordinates of the first element, in
    the order of the shape; empty where all are 0.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Literal["input", "output"]
    promised: bool = True
    mins: tuple[int, ...] = ()

    @property
    def element_bytes(self) -> int:
        """Size of one element."""
        return np.dtype(self.dtype).itemsize

    @property
    def payload_bytes(self) -> int:
        """Bytes of all elements, without padding."""
        return prod(self.shape) * self.element_bytes


class ScalarSpec(NamedTuple):
    """An argument that is passed by value, between inputs and outputs. ``dtype`` is a NumPy name of
    an integer of at most 32 bits, ``value`` one that it holds."""

    name: str
    dtype: str
    value: int


@dataclass(frozen=True)
class BufferLayout:
    """Where the elements of a buffer lie.

    ``strides`` are in elements, in the order of the shape. ``host_offset_bytes`` is the distance
    of the first element from an aligned address: 0 where the contract promises alignment, and on
    purpose not 0 where it does not, so that code relying on an unpromised alignment fails
    verification. ``span_bytes`` reaches from the first element to the end of the last row.
    """

    strides: tuple[int, ...]
    host_offset_bytes: int
    span_bytes: int


def layout_of(spec: BufferSpec, contract: Contract, target: Target) -> BufferLayout:
    """How a caller that keeps ``contract``, and nothing more, lays out ``spec``."""
    row = spec.shape[-1]
    if spec.promised and contract in (Contract.STRIDE, Contract.EXTENT):
        lanes = target.vector_alignment_bytes // spec.element_bytes
        row = -(-row // lanes) * lanes
    strides = [1]
    pitch = row
    for extent in reversed(spec.shape[:-1]):
        strides.insert(0, pitch)
        pitch *= extent
    offset = spec.element_bytes if contract is Contract.NONE else 0
    return BufferLayout(tuple(strides), offset, pitch * spec.element_bytes)
