"""Cases as the memory image the harness works on, and the comparison of what came back.

The image holds every buffer in place, between red zones and with padding, both full of the case's
poison, as are outputs. Each case has whole pages of its own: the candidate sees only those of the
call under way.
After a run, all of it must equal what the image would be with the reference's outputs: one
comparison covers outputs, inputs, paddings and the memory around them. Elements of an output with a
tolerance count as equal where that accepts them, and nothing else does.
"""

from __future__ import annotations

import hashlib
import re
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tuner.errors import CandidateError, InternalError
from tuner.kernels.kernel import Array
from tuner.measure.cases import PAGE_BYTES, Argument, Bytes, Case, CaseSet, cases_of, poison
from tuner.plain_text import plain
from tuner.problem.buffers import ScalarSpec
from tuner.problem.target import Target
from tuner.records.candidate import Problem
from tuner.records.outcome import Outcome

_MAGIC, _VERSION = 0x49565848, 7
_SCALAR = 0xFFFF
_DIMENSIONS = 6
_HEADER = struct.Struct("<10I")
_CASE = struct.Struct("<7I")
_BUFFER = struct.Struct(f"<IBBH{_DIMENSIONS}i{_DIMENSIONS}i{_DIMENSIONS}i")
_REPORT = struct.Struct("<IiII236sI")
REPORT_BYTES = _REPORT.size
"""``image_header``, ``image_case``, ``image_buffer``, ``image_report`` of harness/image.h."""

RED_ZONE_VECTORS = 8
"""Vectors between buffers: wider than what an HVX schedule writes past an end in one go."""
HEAP_BYTES = 1 << 28
"""The most a candidate may allocate: twice the largest accepted set of buffers."""
_BYTES_KEPT = 1 << 29
"""Of an :class:`ImageCache`: up to this size together, the latest image in any case."""
CASE_SPACE_BYTES = 0x50000000
"""Of addresses, for the views of a case: from ``CASE_ADDRESS`` to ``HEAP_ADDRESS`` of
harness/memory_map.h."""
_WINDOW_BYTES = 1 << 26
"""Distance of views: wider than any stride, and a multiple of the distance at which addresses share
sets of caches, so that it changes no cycles."""
MOST_CASES = 32
"""Bits of ``refused_cases``."""


@dataclass(frozen=True)
class Report:
    """The harness's report of a run. ``result`` is the value of the last call;
    ``refused_cases`` are the bits of those that were answered with an error, as they may be."""

    finished_cases: int
    result: int
    vtcm_refused_bytes: int
    heap_refused_bytes: int
    message: str
    refused_cases: int = 0

    @classmethod
    def unpacked(cls, data: bytes | memoryview, offset: int = 0) -> Report:
        """The ``image_report`` at ``offset`` of ``data``."""
        finished, result, vtcm, heap, message, refused = _REPORT.unpack_from(data, offset)
        text = message.split(b"\0")[0].decode("ascii", errors="replace")
        return cls(finished, result, vtcm, heap, plain(text), refused)


@dataclass(frozen=True)
class Image:
    """The image of a set of cases: before a run, and as it must be after a good one.

    ``cases`` begin with ``practice_calls`` copies of the one that is timed. ``starts`` holds, for
    each case and argument, the offset of its first element; ``parts`` first byte and size of all
    that belongs to a case; ``windows`` the distance of a case's views.
    """

    cases: CaseSet
    before: Bytes
    after: Bytes
    report_offset: int
    starts: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[int, int], ...]
    windows: tuple[int, ...]
    practice_calls: int = 0

    def view_offsets(self, number: int) -> list[int]:
        """Where a simulator shows each buffer of case ``number``, from ``CASE_ADDRESS`` on: each in
        a view of its own, far from all others."""
        case, (part, _) = self.cases.cases[number], self.parts[number]
        inputs = sum(argument.spec.role == "input" for argument in case.arguments)
        return [
            start - part + self.windows[number] * (at + len(case.scalars) * (at >= inputs))
            for at, start in enumerate(self.starts[number])
        ]

    def view_bytes(self, number: int) -> int:
        """Of addresses, that the views of case ``number`` take."""
        case = self.cases.cases[number]
        entries = len(case.arguments) + len(case.scalars)
        return self.windows[number] * entries or self.parts[number][1]

    @property
    def calls(self) -> int:
        """How often the candidate is called."""
        return len(self.cases.cases)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the image before a run."""
        return hashlib.sha256(self.before.data).hexdigest()

    @cached_property
    def expected_digest(self) -> str:
        """SHA-256 of all cases' memory after a right run: outputs, inputs and all around them."""
        return hashlib.sha256(self.after[self.parts_offset :].data).hexdigest()

    @property
    def case_bytes(self) -> int:
        """Size of all cases' memory."""
        return int(self.after.size) - self.parts_offset

    @property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """Offset and size in bytes of each output in the first case's part."""
        return tuple(
            (start - self.parts_offset, argument.layout.span_bytes)
            for argument, start in zip(self.cases.cases[0].arguments, self.starts[0], strict=True)
            if argument.spec.role == "output"
        )

    @property
    def refusable(self) -> int:
        """Bits of the cases that may be answered with an error."""
        return sum(1 << n for n, case in enumerate(self.cases.cases) if case.may_refuse)

    def difference_in_cases(self, kept: bytes, refused_cases: int = 0) -> str | None:
        """As :meth:`difference`, of the ``kept`` memory of the first cases alone."""
        returned: Bytes = self.after.copy()
        begin = self.parts_offset
        returned[begin : begin + len(kept)] = np.frombuffer(kept, np.uint8)
        return self.difference(returned, refused_cases)

    @property
    def watched_calls(self) -> int:
        """How many of the first calls every access of which is checked."""
        return self.practice_calls + CaseSet(self.cases.cases[self.practice_calls :]).watched

    def report(self, returned: Bytes) -> Report:
        """The harness's report in a ``returned`` image."""
        return Report.unpacked(returned.data, self.report_offset)

    @property
    def parts_offset(self) -> int:
        """Where the parts of the cases begin; all before is the harness's."""
        return self.report_offset + PAGE_BYTES

    def difference(self, returned: Bytes, refused_cases: int = 0) -> str | None:
        """The first wrong byte, in words, of a ``returned`` image whose cases all finished, if any.

        Of ``refused_cases`` that may be refused, nothing may have changed. The report's page is
        the harness's own and not compared.
        """
        wanted = self._with_refused(refused_cases)
        if self.is_tolerant:
            wanted = self._with_accepted(wanted, returned, refused_cases)
        last = self.parts_offset
        if np.array_equal(returned[last:], wanted[last:]) and np.array_equal(
            returned[: self.report_offset], wanted[: self.report_offset]
        ):
            return self._unsteady(returned) if self.is_tolerant else None
        for case, starts in zip(self.cases.cases, self.starts, strict=True):
            for argument, start in zip(case.arguments, starts, strict=True):
                right = _elements(wanted, argument, start)
                found = _compare(case, argument, _elements(returned, argument, start), right)
                if found is not None:
                    return found
        changed = returned != wanted
        changed[self.report_offset : self.parts_offset] = False
        place, told = self.place(int(np.argmax(changed)))
        return f"wrote {place} ({told})"

    def _with_refused(self, refused_cases: int) -> Bytes:
        refused = [
            part
            for number, (case, part) in enumerate(zip(self.cases.cases, self.parts, strict=True))
            if case.may_refuse and refused_cases >> number & 1
        ]
        wanted = self.after.copy() if refused else self.after
        for begin, size in refused:
            wanted[begin : begin + size] = self.before[begin : begin + size]
        return wanted

    @cached_property
    def is_tolerant(self) -> bool:
        """Whether outputs may differ from the reference in some bits."""
        return any(argument.tolerance is not None for argument in self.cases.cases[0].arguments)

    def _with_accepted(self, wanted: Bytes, returned: Bytes, refused_cases: int) -> Bytes:
        """``wanted``, with the elements of ``returned`` that are accepted in place of its own."""
        wanted = wanted.copy()
        for number, (case, starts) in enumerate(zip(self.cases.cases, self.starts, strict=True)):
            if case.may_refuse and refused_cases >> number & 1:
                continue  # its outputs are memory that nobody touched
            for argument, start in zip(case.arguments, starts, strict=True):
                if argument.tolerance is not None:
                    found = _elements(returned, argument, start)
                    right = _elements(wanted, argument, start)
                    accepted = argument.tolerance.accepts(found, right)
                    _bits(right)[accepted] = _bits(found)[accepted]
        return wanted

    def _unsteady(self, returned: Bytes) -> str | None:
        """The first difference between the practice calls and the one that is timed, in words: the
        same inputs give the same bits, or uninitialised memory is read."""
        timed = self.practice_calls
        for number in range(timed):
            pairs = zip(self.starts[number], self.starts[timed], strict=True)
            for argument, places in zip(self.cases.cases[timed].arguments, pairs, strict=True):
                one, other = (_elements(returned, argument, place) for place in places)
                differ = np.argwhere(_bits(one) != _bits(other))
                if differ.size:
                    index = tuple(int(i) for i in differ[0])
                    at = ", ".join(map(str, index))
                    told = f"{argument.spec.name}[{at}] is {one[index]}"
                    return f"{told}, and {other[index]} in another call on the same inputs"
        return None

    def place(self, at: int, seen_in: int | None = None) -> tuple[str, str]:
        """The byte at offset ``at`` by the buffer that is nearest, and its case, both in words.

        ``seen_in`` is the number of a case in which the byte was touched: ``at`` is then its offset
        in the views of that case (:meth:`view_offsets`).
        """
        numbers = range(len(self.cases.cases)) if seen_in is None else (seen_in,)
        _, start, case, argument = min(
            (
                (_distance(at, start, a.layout.span_bytes), start, self.cases.cases[number], a)
                for number in numbers
                for a, start in zip(
                    self.cases.cases[number].arguments,
                    self.starts[number] if seen_in is None else self.view_offsets(number),
                    strict=True,
                )
            ),
            key=lambda found: found[0],
        )
        name, told = argument.spec.name, case.told(argument)
        end = start + argument.layout.span_bytes
        if at < start:
            return f"{start - at} bytes before {name}", told
        if at >= end:
            return f"{at - end + 1} bytes past the end of {name}", told
        index = _index(argument, (at - start) // argument.spec.element_bytes)
        if index is None:
            return f"in the row padding of {name}, {at - start} bytes from its start", told
        return f"{name}[{', '.join(map(str, index))}]", told


CasesOf = Callable[[Problem], CaseSet]


class ImageCache:
    """The images of the latest problems, for all threads: references take longer than most runs.

    A thread that asks for an image that is being made waits; those with other problems do not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._images: OrderedDict[tuple[str, int, CasesOf], Future[Image]] = OrderedDict()

    def of(self, problem: Problem, practice_calls: int = 0, *, cases: CasesOf = cases_of) -> Image:
        """The problem's image with its verification ``cases``, made once."""
        key = (problem.digest, practice_calls, cases)
        with self._lock:
            image = self._images.pop(key, None)
            mine = image is None
            image = image or Future()
            self._images[key] = image
        if mine:
            try:
                image.set_result(image_of(cases(problem), problem.target, practice_calls))
            except BaseException as error:
                with self._lock:
                    self._images.pop(key, None)
                image.set_exception(error)
                raise
            with self._lock:
                while len(self._images) > 1 and self._kept_bytes() > _BYTES_KEPT:
                    self._images.popitem(last=False)
        return image.result()

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._images.clear()

    def _kept_bytes(self) -> int:
        made = [one.result() for one in self._images.values() if one.done()]
        return sum(image.before.nbytes + image.after.nbytes for image in made)


def image_of(cases: CaseSet, target: Target, practice_calls: int = 0) -> Image:
    """Lays out ``cases`` for ``target``.

    Buffers start at odd multiples of the target's vector alignment, plus the offset their layout
    asks for: aligned as the contract says, no more. Before all others come ``practice_calls`` of
    the first case with the other poison: the same inputs must give the same outputs under both.
    """
    practice = tuple(
        replace(timed, poison=1 - timed.poison)
        for timed in cases.cases[:1]
        for _ in range(practice_calls)
    )
    cases = CaseSet(practice + cases.cases)
    if len(cases.cases) > MOST_CASES:
        raise InternalError(f"{len(cases.cases)} cases; an image holds {MOST_CASES}")
    alignment = target.vector_alignment_bytes
    buffers = [argument for case in cases.cases for argument in case.arguments]
    entries = len(buffers) + sum(len(case.scalars) for case in cases.cases)
    tables = _HEADER.size + _CASE.size * len(cases.cases) + _BUFFER.size * entries
    report_offset = _whole(tables, PAGE_BYTES)
    total = report_offset + PAGE_BYTES
    parts: list[_Part] = []
    for case in cases.cases:
        parts.append(_part(case, total, alignment))
        total += parts[-1].size

    before = np.zeros(total, np.uint8)
    for case, part in zip(cases.cases, parts, strict=True):
        pages = before[part.offset : part.offset + part.size].reshape(-1, PAGE_BYTES)
        pages[...] = poison(case.poison)
    header = (report_offset, _HEADER.size, len(cases.cases), alignment, HEAP_BYTES)
    tail = (target.vtcm_bytes, practice_calls)
    _HEADER.pack_into(before.data, 0, _MAGIC, _VERSION, total, *header, *tail)
    _write_tables(before, cases, parts)
    after = before.copy()
    starts = [start for part in parts for start in part.starts]
    for argument, start in zip(buffers, starts, strict=True):
        _elements(after, argument, start)[...] = argument.elements
        if argument.spec.role == "input":
            _elements(before, argument, start)[...] = argument.elements
    return Image(
        cases=cases,
        before=before,
        after=after,
        report_offset=report_offset,
        starts=tuple(part.starts for part in parts),
        parts=tuple((part.offset, part.size) for part in parts),
        windows=tuple(map(_window_bytes, cases.cases, parts)),
        practice_calls=practice_calls,
    )


@dataclass(frozen=True)
class _Part:
    """Where a case lies in the image, and in it the first elements of its arguments."""

    offset: int
    size: int
    starts: tuple[int, ...]


def _part(case: Case, offset: int, alignment: int) -> _Part:
    end = offset
    starts: list[int] = []
    for argument in case.arguments:
        base = _whole(end + RED_ZONE_VECTORS * alignment, 2 * alignment) + alignment
        starts.append(base + argument.layout.host_offset_bytes)
        end = starts[-1] + argument.layout.span_bytes
    size = _whole(end + RED_ZONE_VECTORS * alignment - offset, PAGE_BYTES)
    return _Part(offset, size, tuple(starts))


def _window_bytes(case: Case, part: _Part) -> int:
    """0 where views of so much memory do not fit."""
    window = _whole(part.size + 1, _WINDOW_BYTES)
    fits = window * (len(case.arguments) + len(case.scalars)) <= CASE_SPACE_BYTES
    return window if fits else 0


def _whole(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _write_tables(image: Bytes, cases: CaseSet, parts: list[_Part]) -> None:
    at_case = _HEADER.size
    at_entry = at_case + _CASE.size * len(cases.cases)
    for case, part in zip(cases.cases, parts, strict=True):
        entries = _entries(case, part)
        flags = (case.poison, case.may_refuse, _window_bytes(case, part))
        _CASE.pack_into(image.data, at_case, part.offset, part.size, at_entry, len(entries), *flags)
        at_case += _CASE.size
        for entry in entries:
            image[at_entry : at_entry + _BUFFER.size] = np.frombuffer(entry, np.uint8)
            at_entry += _BUFFER.size


def _entries(case: Case, part: _Part) -> list[bytes]:
    """An ``image_buffer`` for each argument, in the order of the call."""
    entries = [
        _buffer_entry(argument, start - part.offset)
        for argument, start in zip(case.arguments, part.starts, strict=True)
    ]
    inputs = sum(argument.spec.role == "input" for argument in case.arguments)
    entries[inputs:inputs] = map(_scalar_entry, case.scalars)
    return entries


def _buffer_entry(argument: Argument, offset: int) -> bytes:
    spec, layout = argument.spec, argument.layout
    unused = (0,) * (_DIMENSIONS - len(spec.shape))
    return _BUFFER.pack(
        offset,
        _type_code(spec.dtype),
        spec.element_bytes * 8,
        len(spec.shape),
        *(spec.mins or (0,) * len(spec.shape))[::-1],
        *unused,
        *spec.shape[::-1],
        *unused,
        *layout.strides[::-1],
        *unused,
    )


def _scalar_entry(scalar: ScalarSpec) -> bytes:
    # In a register of 32 bits, extended by its sign if it has one (Hexagon ABI).
    bits = np.dtype(scalar.dtype).itemsize * 8
    nothing = (0,) * (3 * _DIMENSIONS)
    value = scalar.value & 0xFFFFFFFF
    return _BUFFER.pack(value, _type_code(scalar.dtype), bits, _SCALAR, *nothing)


def _type_code(dtype: str) -> int:
    """Halide's ``halide_type_code_t``."""
    return {"i": 0, "u": 1, "f": 2}[np.dtype(dtype).kind]


def _elements(image: Bytes, argument: Argument, start: int) -> Array:
    """The elements of a buffer as they lie in ``image``: a view."""
    spec, layout = argument.spec, argument.layout
    flat = image[start : start + layout.span_bytes].view(spec.dtype)
    strides = tuple(stride * spec.element_bytes for stride in layout.strides)
    return as_strided(flat, spec.shape, strides)


def _distance(at: int, start: int, span_bytes: int) -> int:
    """Of a byte from a buffer; 0 if it lies in it."""
    return max(start - at, at - (start + span_bytes) + 1, 0)


def _index(argument: Argument, offset: int) -> tuple[int, ...] | None:
    """Of the element at ``offset`` elements from the first; ``None`` in padding."""
    index = []
    for extent, stride in zip(argument.spec.shape, argument.layout.strides, strict=True):
        index.append(offset // stride)
        offset -= index[-1] * stride
        if index[-1] >= extent:
            return None
    return tuple(index)


def _bits(elements: Array) -> Array:
    """The same memory as unsigned integers: NaN equals itself, and 0 differs from -0."""
    return elements.view(f"u{elements.itemsize}")


def _compare(case: Case, argument: Argument, found: Array, right: Array) -> str | None:
    wrong = _bits(found) != _bits(right)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    spec = argument.spec
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), spec.shape))
    at = ", ".join(map(str, index))
    if spec.role == "input":
        return f"changed its input {spec.name}[{at}] ({case.told(argument)})"
    near = "" if argument.tolerance is None else str(argument.tolerance)
    return (
        f"{spec.name}[{at}] is {found[index]}, reference {right[index]}; "
        f"{count} of {wrong.size} elements differ{f' by more than {near}' if near else ''} "
        f"({case.told(argument)})"
    )


_DIFFERENCE = re.compile(
    r"(?P<buffer>\w+)\[(?P<index>[\d, ]+)\] is (?P<value>\S+), reference (?P<reference>[^;\s]+); "
    r"(?P<count>\d+) of (?P<of>\d+) elements differ[^(]* \((?P<case>.*)\)"
)


def difference_in(told: str) -> dict[str, Any] | None:
    """The parts of what :meth:`Image.difference` says of a wrong output; ``None`` of other texts.

    Stored trials hold that text, so that this tells of old ones, too.
    """
    found = _DIFFERENCE.search(told)
    if found is None:
        return None
    numbers = {name: int(found[name]) for name in ("count", "of")}
    index = [int(part) for part in found["index"].split(",")]
    return {**found.groupdict(), **numbers, "index": index}


def failed_call(report: Report, cases: CaseSet, target: Target) -> CandidateError:
    """The outcome of a candidate whose last call returned ``report.result``, an error."""
    if report.vtcm_refused_bytes:
        return CandidateError(
            Outcome.INFEASIBLE,
            f"asked for {report.vtcm_refused_bytes:,} bytes of VTCM, more than was free; "
            f"{target.name} has {target.vtcm_bytes:,} in all",
        )
    case = cases.cases[min(report.finished_cases, len(cases.cases) - 1)].name
    reason = report.message
    if not reason and report.heap_refused_bytes:
        reason = f"no memory for {report.heap_refused_bytes} bytes"
    shown = f": {reason}" if reason else ""
    return CandidateError(Outcome.RUN_ERROR, f"returned {report.result} ({case}){shown}")
