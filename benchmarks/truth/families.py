"""What is compared with what: a family of public figures, and the model's for each of them.

Packet times become nanoseconds by a clock, and the sources that give nanoseconds do not state the
chip's. So one clock is taken for all of them: the geometric mean of those that the lines of the
single-threaded ladder inside L2 imply. These families show whether figures agree with each other,
not whether they agree with a watch. Speed-ups, pcycles and bytes a pcycle need no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from benchmarks.truth.figures import Figure
from benchmarks.truth.programs import Chain, Program
from tuner.search.ranking import kendall_tau

PCYCLES = 2.0
"""Clock cycles of a packet time (docs/simulator.md)."""
VECTOR_BYTES = 128
ROUNDS = (1000, 2000)
"""The issue rate is the difference of as many rounds: what comes before and after is in both."""
_LOOPS = {
    "8 x vrmpyacc": "VRMPYACC",
    "8 x (vrmpy + vadd.w)": "VRMPY_VADD",
    "vrmpy": "VRMPY",
    "vmpy": "VMPY",
    "vadd": "VADD",
    "read": "READ",
    "write": "WRITE",
    "copy, read and written": "COPY",
    "int8 add": "ADD",
    "no copy": "CONVOLVE",
    "copy by elements": "STAGED",
}
_VECTORS_MOVED = {"VRMPY": 3, "VMPY": 4, "VADD": 4, "READ": 1, "WRITE": 1, "COPY": 2}
"""Vectors that an operation reads and writes."""
_NS = {"ms": 1e6, "us": 1e3}
NEIGHBOURS_GHZ = (1.39, 1.48)
"""Clocks of v68 and v73 chips that were asked for their maximum (strongtz/cdsp_peak, results). The
ladder's chip, a v69, was not asked: TVM's runtime first did two months later (apache/tvm pull
request 13162)."""
DDR_TASKS = 4
"""The contexts of the target; chips with two, six and eight are held against the same figure."""


@dataclass(frozen=True)
class Line:
    """A figure of silicon and the model's. ``model`` is in ``unit``, or in packet times where
    that is nanoseconds and no clock was put in yet."""

    family: str
    what: str
    device: str
    silicon: float
    model: float
    unit: str
    source: str
    remark: str = ""

    @property
    def ratio(self) -> float:
        """Model over silicon."""
        return self.model / self.silicon


@dataclass(frozen=True)
class Bar:
    """How far a family's lines may be off (as a share), and the least tau."""

    off: float
    tau: float = 0.9


ISSUE, INSIDE, BEYOND = "issue rates", "one thread, inside L2", "one thread, beyond L2"
FOUR_INSIDE, FOUR_BEYOND = "four threads, inside L2", "four threads, beyond L2"
INT8, DDR, VTCM = "int8 add", "DDR, all contexts", "copies into VTCM"
FAMILIES = (ISSUE, INSIDE, BEYOND, FOUR_INSIDE, FOUR_BEYOND, INT8, DDR, VTCM)
GOALS = (ISSUE, INSIDE, BEYOND)
"""Families that must keep their bars; the others are shown as they are (docs/truth.md says why)."""
BARS = {family: Bar(0.40) for family in FAMILIES} | {ISSUE: Bar(0.01), INSIDE: Bar(0.15)}


def _program(figure: Figure, count: int | None = None) -> Program:
    name, _, rest = figure.operation.partition(", ")
    loop = _LOOPS.get(figure.operation) or _LOOPS[name]
    weights = int(rest.removeprefix("weights ")) if rest.startswith("weights") else 1
    return Program(loop, count or figure.count, figure.tasks, weights)


class Comparison:
    """Lines of all families of ``figures`` that the chain can run, made when asked for."""

    def __init__(self, figures: Iterable[Figure], chain: Chain) -> None:
        self._figures = [figure for figure in figures if not figure.not_simulated]
        self._chain = chain

    def _of(self, family: str) -> list[Figure]:
        return [figure for figure in self._figures if figure.family == family]

    def _packet_times(self, figure: Figure) -> int:
        return self._chain.timing(_program(figure)).cycles

    def _ladders(self, family: str) -> Iterator[list[Figure]]:
        """The sizes of each operation, in order."""
        figures = self._of(family)
        for operation in dict.fromkeys(one.operation for one in figures):
            yield [one for one in figures if one.operation == operation]

    def _fits(self, figure: Figure) -> bool:
        """Whether all buffers lie in L2, with room for something else."""
        moved = _VECTORS_MOVED[_LOOPS[figure.operation]] * figure.count * VECTOR_BYTES
        return moved < self._chain.l2_bytes

    @cached_property
    def clock_ghz(self) -> float:
        """The clock that the ladder inside L2 implies."""
        logs = [math.log(PCYCLES * one.model / one.silicon) for one in self._slopes("ladder")]
        return math.exp(sum(logs) / len(logs))

    def _timed(self, lines: Iterable[Line]) -> list[Line]:
        """``lines`` with packet times as nanoseconds."""
        packet_ns = PCYCLES / self.clock_ghz
        return [replace(one, model=one.model * packet_ns) for one in lines]

    def lines(self, family: str) -> list[Line]:
        """The lines of one of :data:`FAMILIES`."""
        made: dict[str, Callable[[], Iterable[Line]]] = {
            ISSUE: self._issue,
            INSIDE: lambda: self._timed(self._slopes("ladder")),
            BEYOND: lambda: self._timed(self._whole_calls()),
            FOUR_INSIDE: lambda: self._speed_ups(inside=True),
            FOUR_BEYOND: lambda: self._speed_ups(inside=False),
            INT8: lambda: self._timed(self._steps(INT8, lambda _: True)),
            DDR: self._transfers,
            VTCM: self._copies,
        }
        return [replace(line, family=family) for line in made[family]()]

    def tau(self, family: str) -> float | None:
        """Kendall's tau of the model's order with silicon's: of the times as published where the
        figures are times of one thread or of copies, else of the lines. Where a family has several
        devices, the least of theirs: nothing in the model tells one from another."""
        times = {
            INSIDE: [one for one in self._of("ladder") if self._fits(one)],
            BEYOND: [one for one in self._of("ladder") if not self._fits(one)],
            INT8: self._of(INT8),
            VTCM: self._of(VTCM),
        }
        if family not in times:
            return least_tau(self.lines(family))
        return kendall_tau(
            [self._packet_times(one) for one in times[family]],
            [one.value for one in times[family]],
        )

    def _issue(self) -> Iterator[Line]:
        first, last = ROUNDS
        for figure in self._of(ISSUE):
            cycles = [self._chain.timing(_program(figure, n)).cycles for n in ROUNDS]
            each = PCYCLES * (cycles[1] - cycles[0]) / (last - first)
            yield _line(figure, figure.operation, figure.value, each, figure.unit)

    def _slopes(self, family: str) -> list[Line]:
        return list(self._steps(family, self._fits))

    def _steps(self, family: str, chosen: Callable[[Figure], bool]) -> Iterator[Line]:
        """Nanoseconds an operation from one size to the next: what a call costs is in both."""
        for ladder in self._ladders(family):
            for one, other in pairwise(figure for figure in ladder if chosen(figure)):
                more = other.count - one.count
                silicon = (other.value - one.value) * _NS[one.unit] / more
                if silicon <= 0:
                    continue  # within the resolution of the figures
                model = (self._packet_times(other) - self._packet_times(one)) / more
                what = f"{one.operation}, {one.count} to {other.count}"
                yield _line(other, what, silicon, model, "ns an operation")

    def _whole_calls(self) -> Iterator[Line]:
        for figure in self._of("ladder"):
            if not self._fits(figure):
                silicon = figure.value * _NS[figure.unit] / figure.count
                model = self._packet_times(figure) / figure.count
                what = f"{figure.operation}, {figure.count}"
                yield _line(figure, what, silicon, model, "ns an operation")

    def _speed_ups(self, *, inside: bool) -> Iterator[Line]:
        alone = {(one.operation, one.count): one for one in self._of("ladder")}
        for figure in self._of("four ways"):
            single = alone[figure.operation, figure.count]
            if self._fits(figure) is inside:
                silicon = single.value / figure.value
                model = self._packet_times(single) / self._packet_times(figure)
                what = f"{figure.operation}, {figure.count}"
                yield _line(figure, what, silicon, model, "times as fast")

    def _transfers(self) -> Iterator[Line]:
        for figure in self._of(DDR):
            program = replace(_program(figure), tasks=DDR_TASKS)
            moved = _VECTORS_MOVED[program.loop] * program.count * VECTOR_BYTES
            model = moved / (PCYCLES * self._chain.timing(program).cycles)
            yield _line(figure, figure.operation, figure.value, model, figure.unit)

    def _copies(self) -> Iterator[Line]:
        figures = {figure.operation: figure for figure in self._of(VTCM)}
        for operation, figure in figures.items():
            name, _, weights = operation.partition(", ")
            plain = figures[f"no copy, {weights}"]
            if figure is not plain:
                silicon = figure.value / plain.value
                model = self._packet_times(figure) / self._packet_times(plain)
                yield _line(figure, f"{name}, {weights}", silicon, model, "times as slow as none")


def _line(figure: Figure, what: str, silicon: float, model: float, unit: str) -> Line:
    return Line(
        figure.family, what, figure.device, silicon, model, unit, figure.source, figure.remark
    )


def least_tau(lines: Sequence[Line]) -> float | None:
    """The least tau of the devices; ``None`` where none has two lines that differ."""
    found = []
    for device in dict.fromkeys(line.device for line in lines):
        own = [line for line in lines if line.device == device]
        tau = kendall_tau([line.model for line in own], [line.silicon for line in own])
        found += [] if tau is None else [tau]
    return min(found, default=None)
