"""Arguments of a kernel and how a contract lays its buffers out in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from tuner.errors import UserError
from tuner.problem.contract import Contract
from tuner.problem.target import Target

_CONTRACTS = tuple(Contract)
_NOT_WHOLE = tuple(one for one in Contract if one is not Contract.EXTENT)
_ALIGNED = tuple(one for one in _NOT_WHOLE if one is not Contract.STRIDE)
"""The contracts that ``static`` implies where rows are not whole vectors."""


@cache
def _size_of(dtype: str) -> int:
    return np.dtype(dtype).itemsize


class BufferSpec(NamedTuple):
    """One argument of a kernel. A tuple, because each best-query makes some, and a frozen
    dataclass takes four times as long to make.

    ``shape`` is in NumPy order, outermost first; the innermost dimension is always dense.
    ``dtype`` is a NumPy name (``uint8``, ``int8``, ``int32``, ``uint32``). ``promised`` is false
    for small tables (3x3 weights, say) to which the ``stride`` and ``extent`` promises do not
    apply; the host alignment applies to all. ``mins`` are the coordinates of the first element, in
    the order of the shape; empty where all are 0. ``loose`` takes promises back, whatever the
    contract: not 0, the buffer begins anywhere, and rows of its ``loose`` innermost dimensions,
    dense in themselves, lie at strides that the caller chooses.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Literal["input", "output"]
    promised: bool = True
    mins: tuple[int, ...] = ()
    loose: int = 0

    @property
    def element_bytes(self) -> int:
        """Size of one element."""
        return _size_of(self.dtype)

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
    lanes = target.vector_alignment_bytes // spec.element_bytes
    pitch = spec.shape[-1]
    if spec.promised and not spec.loose and contract in (Contract.STRIDE, Contract.EXTENT):
        pitch = -(-pitch // lanes) * lanes
    strides = [1]
    for dimension, extent in enumerate(reversed(spec.shape[:-1]), start=1):
        if spec.loose and dimension == promised_strides(spec, contract):
            # Part of a larger buffer, whose rows begin everywhere in a vector.
            pitch = (pitch + min(pitch, lanes // 2)) | 1
        strides.insert(0, pitch)
        pitch *= extent
    offset = spec.element_bytes if spec.loose or contract is Contract.NONE else 0
    return BufferLayout(tuple(strides), offset, pitch * spec.element_bytes)


def other_layout_of(
    spec: BufferSpec, contract: Contract, target: Target, number: int
) -> BufferLayout:
    """Another layout that keeps ``contract``: everything it leaves open differs from
    :func:`layout_of`, and between the buffers of a call, each with its ``number``.

    Rows are padded to odd strides, or where strides are promised by whole vectors; the first
    element lies anywhere in a vector, on a multiple of its own size, unless an aligned address is
    promised. Padding by whole vectors is at most half of a row, except in the outermost dimension.
    """
    lanes = target.vector_alignment_bytes // spec.element_bytes
    whole_vectors = spec.promised and not spec.loose and contract.level >= Contract.STRIDE.level
    known = promised_strides(spec, contract)
    strides, pitch = [1], spec.shape[-1]
    if whole_vectors and contract is not Contract.STATIC:
        pitch = -(-pitch // lanes) * lanes
    outermost = len(spec.shape) - 1
    for dimension, extent in enumerate(reversed(spec.shape[:-1]), start=1):
        if dimension >= known:
            if not whole_vectors:
                pitch = (pitch + 2 * number + 1) | 1
            elif dimension == outermost:
                pitch += lanes * (1 + number % 3)
            elif 2 * lanes <= pitch:
                pitch += lanes
        strides.insert(0, pitch)
        pitch *= extent
    is_open = spec.loose or contract is Contract.NONE
    # 37 is odd: as many buffers as a vector has lanes begin at different ones.
    offset = (37 * number + 11) % lanes * spec.element_bytes if is_open else 0
    return BufferLayout(tuple(strides), offset, pitch * spec.element_bytes)


def promised_strides(spec: BufferSpec, contract: Contract) -> int:
    """The number of dimensions, innermost first, whose strides ``contract`` fixes for ``spec``: all
    under ``static`` if it is not loose; at least 1, for innermost elements are dense."""
    if contract is not Contract.STATIC:
        return 1
    return min(spec.loose, len(spec.shape)) or len(spec.shape)


def loose_lines(buffers: Iterable[BufferSpec], contract: Contract) -> Iterator[str]:
    """For people: the promises that ``contract`` does not make of each loose buffer."""
    for spec in buffers:
        if spec.loose:
            known = promised_strides(spec, contract)
            which = "" if known == 1 else f" from dimension {known} on"
            strides = f", with any strides{which}" if known < len(spec.shape) else ""
            yield f"{spec.name} is loose: it may lie at any address{strides}"


def ragged(buffers: Iterable[BufferSpec], target: Target) -> Iterator[tuple[BufferSpec, int]]:
    """Each buffer whose innermost extent is not a whole number of vectors, and the elements of a
    vector; none if all keep contract ``extent``."""
    for spec in buffers:
        lanes = target.vector_alignment_bytes // spec.element_bytes
        if spec.promised and spec.shape[-1] % lanes:
            yield spec, lanes


def require_kept(label: str, buffers: Iterable[BufferSpec], target: Target) -> None:
    """Raises ``UserError`` if the ``buffers`` of the workload called ``label`` do not keep contract
    ``extent``."""
    for spec, lanes in ragged(buffers, target):
        raise UserError(
            f"{label} does not keep contract 'extent': the innermost extent "
            f"of buffer {spec.name} is {spec.shape[-1]}",
            accepted=f"multiples of {lanes} elements",
            next_step="change the shape, or use contract stride or static",
        )


def kept_contracts(
    buffers: Iterable[BufferSpec], contract: Contract, target: Target
) -> tuple[Contract, ...]:
    """Every contract that a caller with ``buffers`` under ``contract`` keeps, weakest first.

    The promises of ``host``, ``stride`` and ``extent`` include the weaker ones. ``static`` has
    dense strides, so it keeps ``stride`` and ``extent`` only if rows happen to be whole vectors; of
    loose buffers only ``extent``, for nothing is said of their strides.
    """
    if contract is not Contract.STATIC:
        return _CONTRACTS[: contract.level + 1]
    kept = _CONTRACTS
    for spec, _ in ragged(buffers, target):
        if not spec.loose:
            return _ALIGNED
        kept = _NOT_WHOLE
    return kept
