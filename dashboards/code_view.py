"""The code of one or two trials for a page: loops side by side, packets by slot, what belongs to
which loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dashboards.job_view import JobView
from tuner.codegen.halide.loop_origins import (
    Directive,
    LoopOrigin,
    NestLine,
    origins,
    read_nest,
    read_schedule,
)
from tuner.measure.explanation import (
    ExplainedPacket,
    Explanation,
    Instruction,
    LatencyClass,
    Region,
)
from tuner.records.trial import Trial

COLOURS = 8
MOST_ROWS = 12
MOST_PACKETS = 400
LEAST_SHARE = 0.01
OPEN_SHARE = 0.05
HEAT_STEPS = 6
SLOTS = (3, 2, 1, 0)


@dataclass(frozen=True)
class CodeSide:
    """A trial with its explanation and its files.

    ``assembly`` is empty where the compiler gave none of the same object.
    """

    view: JobView
    trial: Trial
    made: Explanation
    assembly: str = field(repr=False)
    files: dict[str, bytes] = field(repr=False)

    @property
    def id(self) -> str:
        """``JOB-TRIAL``."""
        return f"{self.view.id}-{self.trial.number}"

    @property
    def symbol(self) -> str:
        """The function that was timed."""
        return self.view.job.spec.problem.symbol

    @cached_property
    def nest(self) -> list[NestLine]:
        """The loop nest, of code by Halide alone."""
        if "schedule" not in self.files:
            return []
        return read_nest(self._text("loopnest"))

    @cached_property
    def source(self) -> str:
        """The C that other generators compiled."""
        return "" if "schedule" in self.files else self._text("loopnest")

    @cached_property
    def directives(self) -> list[Directive]:
        """The schedule, each directive with the loops of the nest that it names."""
        return read_schedule(
            self._text("schedule"), [line.loop for line in self.nest if line.loop is not None]
        )

    @cached_property
    def origin_at(self) -> dict[int, LoopOrigin]:
        """Loops of the nest by the address of a packet that begins them."""
        packets = [p for region in self.made.regions for p in region.packets]
        told = origins(self.assembly, sorted((p.address, p.text) for p in packets))
        known = {line.loop for line in self.nest}
        return {address: origin for address, origin in told.items() if origin in known}

    @cached_property
    def loops(self) -> list[Region]:
        """The loops that ran, by address."""
        return sorted((r for r in self.made.regions if r.kind == "loop"), key=lambda r: r.begin)

    def origin(self, region: Region) -> LoopOrigin | None:
        """The loop of the nest that ``region`` comes from, if the compiler told: its first block's,
        else that of most of its packets."""
        if region.kind != "loop":
            return None
        told = [self.origin_at[p.address] for p in region.packets if p.address in self.origin_at]
        first = self.origin_at.get(region.begin)
        return first or next((origin for origin, _ in Counter(told).most_common(1)), None)

    def depth(self, region: Region) -> int:
        """How many loops are around it."""
        around = self._at(region.inside)
        return 0 if around is None else 1 + self.depth(around)

    def inclusive(self, region: Region) -> int:
        """Cycles with those of the loops inside."""
        inside = [r for r in self.loops if r.inside == region.begin]
        return region.totals.cycles + sum(self.inclusive(each) for each in inside)

    def share(self, region: Region) -> float:
        """Of all cycles."""
        return region.totals.cycles / self.made.cycles

    def _at(self, begin: int | None) -> Region | None:
        return next((r for r in self.loops if begin is not None and r.begin == begin), None)

    def _text(self, kind: str) -> str:
        return self.files.get(kind, b"").decode(errors="replace")


@dataclass(frozen=True)
class Help:
    """An instruction in the table that explains them. ``latency`` is ``None`` for those that wait
    for no operand."""

    mnemonic: str
    example: str
    latency: LatencyClass | None

    @property
    def stages(self) -> str:
        """``result 9, sources 5, scalar sources 2``; those like the sources left out."""
        if self.latency is None:
            return ""
        stages = self.latency.stages
        told = {k: n for k, n in stages.items() if k == "sources" or n != stages.get("sources")}
        return ", ".join(f"{title} {stage}" for title, stage in told.items())

    @property
    def rule(self) -> str:
        """``vector multiply (widens)``."""
        if self.latency is None:
            return "no operand to wait for"
        forms = f" ({', '.join(self.latency.forms)})" if self.latency.forms else ""
        return self.latency.name + forms


class Helps:
    """The instructions that a page explains, each once, in the order of their first use."""

    def __init__(self) -> None:
        self.all: list[Help] = []
        self._places: dict[tuple[str, str, str], int] = {}

    def place(self, instruction: Instruction, made: Explanation) -> int:
        """Where the explanation of ``instruction`` stands."""
        latency = instruction.latency
        found = Help(
            instruction.mnemonic,
            instruction.text,
            None if latency is None else made.latency_classes[latency],
        )
        key = (found.mnemonic, found.rule, found.stages)
        if key not in self._places:
            self._places[key] = len(self.all)
            self.all.append(found)
        return self._places[key]


@dataclass(frozen=True)
class Line:
    """A packet: for each of :data:`SLOTS` its instructions, with the places of their help."""

    packet: ExplainedPacket
    heat: int
    slots: tuple[tuple[tuple[str, int], ...], ...]
    end: str
    causes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Listing:
    """The packets of one loop on one side. ``left_out`` are those beyond :data:`MOST_PACKETS`."""

    side: int
    region: Region
    origin: LoopOrigin | None
    share: float
    lines: tuple[Line, ...]
    left_out: int

    @property
    def packets_a_time(self) -> float:
        """Each time through."""
        return self.region.totals.packets / max(1, self.region.times)

    @property
    def cycles_a_time(self) -> float:
        """Each time through."""
        return self.region.totals.cycles / max(1, self.region.times)


@dataclass(frozen=True)
class Row:
    """The same loop on every side; ``None`` on a side that lacks it."""

    number: int
    title: str
    is_loop: bool
    by_name: bool
    listings: tuple[Listing | None, ...]

    @property
    def colour(self) -> str:
        """The class that colours all that belongs to it."""
        return f"loop-{self.number % COLOURS}" if self.is_loop else "loop-none"

    @property
    def open(self) -> bool:
        """Whether it is worth reading at once."""
        shares = [listing.share for listing in self.listings if listing is not None]
        return self.is_loop and max(shares) >= OPEN_SHARE


@dataclass(frozen=True)
class Linked:
    """A line of a loop nest or schedule with the numbers of the rows it belongs to."""

    text: str
    depth: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Code:
    """The whole page: ``nests`` and ``schedules`` by side."""

    sides: tuple[CodeSide, ...]
    rows: tuple[Row, ...]
    helps: tuple[Help, ...]
    nests: tuple[tuple[Linked, ...], ...]
    schedules: tuple[tuple[Linked, ...], ...]

    def row_of(self, side: int, region: Region) -> Row | None:
        """The row that shows ``region``, if one does."""
        return next(
            (
                row
                for row in self.rows
                for listing in [row.listings[side]]
                if listing is not None and listing.region is region
            ),
            None,
        )


def code_of(sides: Sequence[CodeSide]) -> Code:
    """The page of one or two ``sides``."""
    pairs = aligned(sides[0], sides[1]) if len(sides) == 2 else alone(sides[0])
    shares = [
        max(side.share(r) if r else 0.0 for side, r in zip(sides, pair, strict=True))
        for pair in pairs
    ]
    shown = sorted(
        (n for n, share in enumerate(shares) if share >= LEAST_SHARE), key=lambda n: -shares[n]
    )[:MOST_ROWS]
    helps = Helps()
    rows = tuple(_row(number, pairs[n], sides, helps) for number, n in enumerate(shown))
    rows = _told_apart(rows)
    code = Code(tuple(sides), rows, tuple(helps.all), (), ())
    owners = [_owners(code, place) for place in range(len(sides))]
    return Code(
        code.sides,
        rows,
        code.helps,
        tuple(_nest(side, own) for side, own in zip(sides, owners, strict=True)),
        tuple(_schedule(side, own) for side, own in zip(sides, owners, strict=True)),
    )


def _told_apart(rows: Sequence[Row]) -> tuple[Row, ...]:
    """A compiler may split a loop, into its last iterations and the others, say."""
    seen: Counter[str] = Counter()
    apart = []
    for row in rows:
        seen[row.title] += 1
        again = f", part {seen[row.title]}" if seen[row.title] > 1 else ""
        apart.append(replace(row, title=row.title + again))
    return tuple(apart)


Pair = tuple[Region | None, ...]


def alone(side: CodeSide) -> list[Pair]:
    """Every region of a page with one side."""
    return [(region,) for region in side.made.regions]


def aligned(own: CodeSide, other: CodeSide) -> list[Pair]:
    """Loops that come from the same loop of the schedule; then, where the code of a side names no
    loops, those with as many loops around them, most cycles first; then functions."""
    pairs: list[Pair] = []
    left, right = list(own.loops), list(other.loops)
    for mine in sorted(own.loops, key=lambda r: -own.inclusive(r)):
        named = own.origin(mine)
        same = [r for r in right if named and other.origin(r) == named]
        theirs = max(same, key=other.inclusive, default=None)
        if theirs is not None:
            pairs.append((mine, theirs))
            left.remove(mine)
            right.remove(theirs)
    for mine in sorted(left, key=lambda r: -own.inclusive(r)):
        may = [
            r
            for r in right
            if own.depth(mine) == other.depth(r) and not (own.origin(mine) and other.origin(r))
        ]
        theirs = max(may, key=other.inclusive, default=None)
        pairs.append((mine, theirs))
        if theirs is not None:
            right.remove(theirs)
    pairs += [(None, theirs) for theirs in right]
    return pairs + _aligned_functions(own, other)


def _aligned_functions(own: CodeSide, other: CodeSide) -> list[Pair]:
    """The code outside of loops. The function that was timed is named after its problem, so it is
    matched by its role."""

    def straight(side: CodeSide) -> dict[str, Region]:
        regions = [r for r in side.made.regions if r.kind == "straight"]
        return {("" if r.function == side.symbol else r.function): r for r in regions}

    mine, theirs = straight(own), straight(other)
    return [(mine.get(name), theirs.get(name)) for name in {**mine, **theirs}]


def _row(number: int, pair: Pair, sides: Sequence[CodeSide], helps: Helps) -> Row:
    listings = tuple(
        _listing(place, side, region, helps) if region is not None else None
        for place, (side, region) in enumerate(zip(sides, pair, strict=True))
    )
    found = [listing for listing in listings if listing is not None]
    origin = next((listing.origin for listing in found if listing.origin), None)
    region = found[0].region
    if region.kind == "straight":
        named = region.function == sides[found[0].side].symbol
        title = "Outside of loops" + ("" if named else f", in {region.function}")
    else:
        title = f"Loop {origin.title}" if origin else f"Loop at {region.begin:#x}"
    by_name = len({listing.origin for listing in found}) == 1 and origin is not None
    return Row(number, title, region.kind == "loop", by_name, listings)


def _listing(place: int, side: CodeSide, region: Region, helps: Helps) -> Listing:
    hottest = max((p.cycles for r in side.made.regions for p in r.packets), default=1) or 1
    shown = region.packets[:MOST_PACKETS]
    lines = tuple(_line(packet, side.made, hottest, helps) for packet in shown)
    return Listing(
        place,
        region,
        side.origin(region),
        side.share(region),
        lines,
        len(region.packets) - len(lines),
    )


def _line(packet: ExplainedPacket, made: Explanation, hottest: int, helps: Helps) -> Line:
    return Line(
        packet,
        round(HEAT_STEPS * packet.cycles / hottest),
        tuple(
            tuple((i.text, helps.place(i, made)) for i in packet.instructions if i.slot == slot)
            for slot in SLOTS
        ),
        packet.text.rpartition("}")[2],
        tuple(
            (cause, cycles)
            for cause, cycles in sorted(packet.stalls.items(), key=lambda item: -item[1])
            if cycles
        ),
    )


def _owners(code: Code, place: int) -> dict[LoopOrigin, tuple[int, ...]]:
    """The rows that the loops of a nest are compiled into: an unrolled or vectorized one into the
    loop around it."""
    side = code.sides[place]
    own: dict[LoopOrigin, tuple[int, ...]] = {}
    for region in side.loops:
        origin, row = side.origin(region), code.row_of(place, region)
        if origin is not None and row is not None:
            own[origin] = (*own.get(origin, ()), row.number)
    compiled = set(side.origin_at.values())
    found: dict[LoopOrigin, tuple[int, ...]] = {}
    around: list[tuple[int, tuple[int, ...]]] = []
    for line in side.nest:
        while around and around[-1][0] >= line.depth:
            around.pop()
        if line.loop is None:
            continue
        if line.loop in own or line.loop in compiled:
            found[line.loop] = own.get(line.loop, ())
        else:
            found[line.loop] = around[-1][1] if around else ()
        around.append((line.depth, found[line.loop]))
    return found


def _nest(side: CodeSide, owners: dict[LoopOrigin, tuple[int, ...]]) -> tuple[Linked, ...]:
    lines: list[Linked] = []
    around: list[tuple[int, tuple[int, ...]]] = []
    for line in side.nest:
        while around and around[-1][0] >= line.depth:
            around.pop()
        rows = around[-1][1] if around else ()
        if line.loop is not None:
            rows = owners[line.loop]
            around.append((line.depth, rows))
        lines.append(Linked(line.text, line.depth, rows))
    return tuple(lines)


def _schedule(side: CodeSide, owners: dict[LoopOrigin, tuple[int, ...]]) -> tuple[Linked, ...]:
    return tuple(
        Linked(each.text, 0, tuple(dict.fromkeys(r for loop in each.loops for r in owners[loop])))
        for each in side.directives
    )
