"""One call of the driver on a DSP: the runs that go in, their files, and the results that come out.

The files are ``queue`` and ``results`` of harness/dsp_queue.h. Results are read strictly: nothing
that is not exactly what a driver writes for this queue is taken for a result.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

from tuner.errors import DeviceError, InternalError
from tuner.measure.image import REPORT_BYTES, Image, Report

_QUEUE_MAGIC, _QUEUE_VERSION, _RECORD_MAGIC = 0x51565848, 2, 0x52565848
_MOST_OUTPUTS = 16
_QUEUE = struct.Struct("<2I16s4I")
_PROBLEM = struct.Struct(f"<128s2I{2 * _MOST_OUTPUTS}I")
_ENTRY = struct.Struct("<4IQ16s16s")
_RECORD = struct.Struct(f"<2I16s4IQ{REPORT_BYTES}s")
_CRC = struct.Struct("<I")
_MOST_SAMPLES = 1 << 16
NONCE_BYTES = 16


@dataclass(frozen=True)
class QueuedRun:
    """One run of a call: the shared object ``content`` on the problem of ``image``, which has the
    inputs alone. No expected output ever reaches a DSP: a candidate shares its memory with the
    harness, and could find it. ``verified`` runs all cases and brings back what memory became;
    else only the first case is run and timed."""

    content: bytes = field(repr=False)
    image: Image
    warm_ups: int
    repeats: int
    budget_cycles: int = 0
    verified: bool = True


@dataclass(frozen=True)
class CallResult:
    """``sums`` hold the SHA-256 of the memory that each verified run left, by its number; ``wrong``
    that memory itself where its sum is not the expected one. ``timed_out`` if the run under way
    was ended because it took too long."""

    results: Results
    sums: Mapping[int, str]
    wrong: Mapping[int, bytes]
    status: int
    said: str
    timed_out: bool
    temperature_c: float | None
    run_s: float
    counters: Mapping[str, int] = field(default_factory=dict, hash=False)
    """What a simulator counted in the whole run, from boot to end, by the names it has for it."""


@dataclass(frozen=True)
class BundleFiles:
    """``objects`` are shared objects by name, each content once; ``queue`` names them and the
    problems in the order of the runs."""

    queue: bytes
    objects: Mapping[str, bytes] = field(hash=False)


def images_of(runs: Sequence[QueuedRun]) -> list[Image]:
    """The problems of a call, each once."""
    return list({run.image.digest: run.image for run in runs}.values())


def output_name(number: int) -> str:
    """The file for the memory that run ``number`` leaves."""
    return f"{number:03}.out"


def bundle_files(
    runs: Sequence[QueuedRun], path_of: Callable[[Image], str], nonce: bytes, heap_bytes: int
) -> BundleFiles:
    """The files of a call of ``runs``. ``path_of`` gives the path of a problem's image there;
    ``nonce`` comes back in every record of the results."""
    if len(nonce) != NONCE_BYTES:
        raise InternalError(f"a nonce of {len(nonce)} bytes")
    images = images_of(runs)
    numbers = {image.digest: number for number, image in enumerate(images)}
    names: dict[bytes, str] = {}
    parts = [
        _QUEUE.pack(_QUEUE_MAGIC, _QUEUE_VERSION, nonce, len(images), len(runs), heap_bytes, 0)
    ]
    for image in images:
        outputs = [number for output in image.outputs for number in output]
        unused = [0] * (2 * _MOST_OUTPUTS - len(outputs))
        path = _text(path_of(image), 128)
        parts.append(
            _PROBLEM.pack(path, image.before.nbytes, len(image.outputs), *outputs, *unused)
        )
    for number, run in enumerate(runs):
        name = names.setdefault(run.content, f"{len(names):03}.so")
        cases = run.image.calls if run.verified else 1
        parts.append(
            _ENTRY.pack(
                *(numbers[run.image.digest], cases, run.warm_ups, run.repeats, run.budget_cycles),
                _text(name, 16),
                _text(output_name(number) if run.verified else "", 16),
            )
        )
    return BundleFiles(b"".join(parts), {name: content for content, name in names.items()})


def _text(text: str, room: int) -> bytes:
    data = text.encode()
    if len(data) >= room:
        raise InternalError(f"'{text}' does not fit into {room - 1} bytes")
    return data


class Kind(IntEnum):
    """``enum record_kind``."""

    BEGIN = 1
    ENTRY_BEGINS = 2
    ENTRY_ENDS = 3
    END = 4


class DspState(IntEnum):
    """``enum dsp_state``: how a candidate's run ended."""

    FINISHED = 0
    CALL_FAILED = 1
    UNSTEADY = 2
    CUT_OFF = 3
    NOT_LOADED = 4
    NO_MEMORY = 5
    NO_PROBLEM = 6
    NOT_KEPT = 7
    DAMAGED = 8


class Power(IntFlag):
    """``enum dsp_power``: what the DSP's system was asked for, and granted."""

    CLOCKS_ASKED = 1
    CLOCKS_GRANTED = 2
    HVX_GRANTED = 4

    @property
    def told(self) -> str:
        """In words for people."""
        if not self & Power.CLOCKS_ASKED:
            return "cannot be asked for"
        clocks = "granted" if self & Power.CLOCKS_GRANTED else "refused"
        hvx = "granted" if self & Power.HVX_GRANTED else "refused"
        return f"highest clocks {clocks}, power for HVX {hvx}"


@dataclass(frozen=True)
class Record:
    """One record. ``state`` is a :class:`DspState`, in the first record bits of :class:`Power`.
    ``overhead_cycles`` are the harness's share of each of ``samples``."""

    kind: Kind
    entry: int
    state: int
    vtcm_bytes: int
    report: Report
    samples: tuple[int, ...]
    overhead_cycles: int = 0

    @property
    def net_samples(self) -> tuple[int, ...]:
        """Those of the candidate alone, in cycles."""
        return tuple(max(sample - self.overhead_cycles, 1) for sample in self.samples)


@dataclass(frozen=True)
class Results:
    """The records of a call. ``ended`` are those of the first entries; ``begun`` is the number of
    the entry that was under way when the call stopped; ``complete`` if the driver reached its end,
    ``gave_up`` is why it stopped before. ``power`` is ``None`` if the driver did not begin."""

    ended: tuple[Record, ...] = ()
    begun: int | None = None
    complete: bool = False
    gave_up: DspState | None = None
    power: Power | None = None

    def require_complete(self, status: int, count: int, who: str) -> None:
        """``DeviceError`` if ``who`` reported success by ``status`` and results of ``count`` runs
        are missing all the same."""
        if status == 0 and not self.complete and self.gave_up is None:
            raise DeviceError(
                f"{who} says that all went well, but results are missing "
                f"({len(self.ended)} of {count})"
            )


def read_records(data: bytes, nonce: bytes) -> list[Record]:
    """The whole records of ``data``; a last one that is cut off is left out.

    Raises ``DeviceError`` for anything that the driver did not write, or not for this call.
    """
    records = []
    at = 0
    while len(data) - at >= _RECORD.size:
        magic, kind, given, entry, state, vtcm, count, empty, report = _RECORD.unpack_from(data, at)
        if magic != _RECORD_MAGIC or kind not in tuple(Kind) or count > _MOST_SAMPLES:
            raise DeviceError(f"the results are garbled at byte {at}")
        if given != nonce:
            raise DeviceError("the results are those of another run")
        end = at + _RECORD.size + 8 * count
        if len(data) < end + _CRC.size:
            break
        if zlib.crc32(data[at:end]) != _CRC.unpack_from(data, end)[0]:
            raise DeviceError(f"the results are damaged from byte {at} on")
        samples = struct.unpack_from(f"<{count}Q", data, at + _RECORD.size)
        unpacked = Report.unpacked(report)
        records.append(Record(Kind(kind), entry, state, vtcm, unpacked, samples, empty))
        at = end + _CRC.size
    return records


def results_of(records: Sequence[Record], entry_count: int) -> Results:
    """The call that ``records`` describe. ``DeviceError`` if they cannot be those of its queue."""
    if not records:
        return Results()
    expected = [(Kind.BEGIN, 0)]
    for entry in range(entry_count):
        expected += [(Kind.ENTRY_BEGINS, entry), (Kind.ENTRY_ENDS, entry)]
    expected.append((Kind.END, entry_count))
    last = records[-1]
    gave_up = last.kind is Kind.END and last.state != DspState.FINISHED
    found = [(record.kind, record.entry) for record in (records[:-1] if gave_up else records)]
    if found != expected[: len(found)]:
        raise DeviceError("the results are not those of the queue, in its order")
    ended = tuple(record for record in records if record.kind is Kind.ENTRY_ENDS)
    if any(record.state not in tuple(DspState) for record in (*ended, *[last] * gave_up)):
        raise DeviceError("the results have an unknown state")
    return Results(
        ended=ended,
        begun=last.entry if last.kind is Kind.ENTRY_BEGINS else None,
        complete=found == expected,
        gave_up=DspState(last.state) if gave_up else None,
        power=Power(records[0].state & int(~Power(0))),
    )
