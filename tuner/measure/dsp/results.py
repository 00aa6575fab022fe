"""What the driver says of a run: ``results`` of harness/dsp_queue.h, read strictly.

Nothing that is not exactly what a driver writes for this queue is taken for a result.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from tuner.errors import DeviceError
from tuner.measure.image import REPORT_BYTES, Report

_MAGIC = 0x52565848
_RECORD = struct.Struct(f"<2I16s4IQ{REPORT_BYTES}s")
_CRC = struct.Struct("<I")
_MOST_SAMPLES = 1 << 16


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
    ``overhead_cycles`` are what each of ``samples`` has of the harness."""

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
    """A run as far as it came. ``ended`` are the first entries; ``begun`` is the number of the
    entry that was under way when the run stopped; ``complete`` if the driver came to its end,
    ``gave_up`` is why it stopped before. ``power`` is ``None`` if the driver did not begin."""

    ended: tuple[Record, ...] = ()
    begun: int | None = None
    complete: bool = False
    gave_up: DspState | None = None
    power: Power | None = None


def read_records(data: bytes, nonce: bytes) -> list[Record]:
    """The whole records of ``data``; a last one that is cut off is left out.

    Raises ``DeviceError`` for anything that the driver did not write, or not for this run.
    """
    records = []
    at = 0
    while len(data) - at >= _RECORD.size:
        magic, kind, given, entry, state, vtcm, count, empty, report = _RECORD.unpack_from(data, at)
        if magic != _MAGIC or kind not in tuple(Kind) or count > _MOST_SAMPLES:
            raise DeviceError(f"the results are garbled at byte {at}")
        if given != nonce:
            raise DeviceError("the results are those of another run")
        end = at + _RECORD.size + 8 * count
        if len(data) < end + _CRC.size:
            break
        if zlib.crc32(data[at:end]) != _CRC.unpack_from(data, end)[0]:
            raise DeviceError(f"the results are damaged from byte {at} on")
        samples = struct.unpack_from(f"<{count}Q", data, at + _RECORD.size)
        told = Report.unpacked(report)
        records.append(Record(Kind(kind), entry, state, vtcm, told, samples, empty))
        at = end + _CRC.size
    return records


def results_of(records: Sequence[Record], entry_count: int) -> Results:
    """The run that ``records`` tell of. Raises ``DeviceError`` if they tell of none."""
    if not records:
        return Results()
    expected = [(Kind.BEGIN, 0)]
    for entry in range(entry_count):
        expected += [(Kind.ENTRY_BEGINS, entry), (Kind.ENTRY_ENDS, entry)]
    expected.append((Kind.END, entry_count))
    last = records[-1]
    gave_up = last.kind is Kind.END and last.state != DspState.FINISHED
    told = [(record.kind, record.entry) for record in (records[:-1] if gave_up else records)]
    if told != expected[: len(told)]:
        raise DeviceError("the results are not those of the queue, in its order")
    ended = tuple(record for record in records if record.kind is Kind.ENTRY_ENDS)
    if any(record.state not in tuple(DspState) for record in (*ended, *[last] * gave_up)):
        raise DeviceError("the results have a state that there is not")
    return Results(
        ended=ended,
        begun=last.entry if last.kind is Kind.ENTRY_BEGINS else None,
        complete=told == expected,
        gave_up=DspState(last.state) if gave_up else None,
        power=Power(records[0].state & int(~Power(0))),
    )
