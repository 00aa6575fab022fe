"""The file that tells the driver what to run: ``queue`` of harness/dsp_queue.h."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import InternalError

_MAGIC, _VERSION = 0x51565848, 2
_BUFFERS = 16
_HEADER = struct.Struct("<2I16s4I")
_PROBLEM = struct.Struct(f"<128s2I{2 * _BUFFERS}I")
_ENTRY = struct.Struct("<4IQ16s16s")
NONCE_BYTES = 16


@dataclass(frozen=True)
class QueuedProblem:
    """A memory image by its ``path`` on the phone. ``outputs`` are offset and size in bytes of
    what the candidate is to write in the first case's part."""

    path: str
    image_bytes: int
    outputs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class QueuedEntry:
    """One candidate's turn on the first ``cases`` of the problem with this number.

    ``object_name`` and ``output_name`` are files in the folder of the run; without the latter,
    what memory became is not kept.
    """

    problem: int
    cases: int
    warm_ups: int
    repeats: int
    object_name: str
    output_name: str = ""
    budget_cycles: int = 0


def packed_queue(
    nonce: bytes,
    problems: Sequence[QueuedProblem],
    entries: Sequence[QueuedEntry],
    heap_bytes: int,
) -> bytes:
    """The file's content. ``nonce`` comes back in every record of the results."""
    if len(nonce) != NONCE_BYTES:
        raise InternalError(f"a nonce of {len(nonce)} bytes")
    header = _HEADER.pack(_MAGIC, _VERSION, nonce, len(problems), len(entries), heap_bytes, 0)
    return b"".join(
        [header, *(_problem(problem) for problem in problems), *(_entry(e) for e in entries)]
    )


def _problem(problem: QueuedProblem) -> bytes:
    flat = [number for output in problem.outputs for number in output]
    flat += [0] * (2 * _BUFFERS - len(flat))
    path = _text(problem.path, 128)
    return _PROBLEM.pack(path, problem.image_bytes, len(problem.outputs), *flat)


def _entry(entry: QueuedEntry) -> bytes:
    return _ENTRY.pack(
        *(entry.problem, entry.cases, entry.warm_ups, entry.repeats, entry.budget_cycles),
        _text(entry.object_name, 16),
        _text(entry.output_name, 16),
    )


def _text(text: str, room: int) -> bytes:
    data = text.encode()
    if len(data) >= room:
        raise InternalError(f"'{text}' does not fit into {room - 1} bytes")
    return data
