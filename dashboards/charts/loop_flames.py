"""Loops by model cycles as icicles, and one time through a loop as a timeline of its slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.code_view import SLOTS, Code, CodeSide, Listing, Row
from tuner.measure.explanation import Region

WIDTH = 640.0
ROW = 26.0
_LETTER = 7.0
"""Pixels of a letter, at most: labels that do not fit are left out."""
_LEAST = 0.5


@dataclass(frozen=True)
class Piece:
    """A bar in pixels. ``row`` is the number of the row of code it leads to."""

    x: float
    y: float
    width: float
    colour: str
    label: str
    title: str
    row: int | None = None


@dataclass(frozen=True)
class Icicle:
    """``text`` has its figures in words."""

    height: float
    pieces: tuple[Piece, ...]
    text: str
    width: float = WIDTH


def icicles(code: Code) -> list[Icicle]:
    """One for each side, on one scale."""
    longest = max(side.made.cycles for side in code.sides)
    return [_icicle(code, place, WIDTH / longest) for place in range(len(code.sides))]


def _icicle(code: Code, place: int, scale: float) -> Icicle:
    side = code.sides[place]
    whole = f"the call, {side.made.cycles:,} model cycles"
    pieces = [Piece(0, 0, side.made.cycles * scale, "loop-none", _fitting(whole, WIDTH), whole)]

    def add(regions: Sequence[Region], at: float, depth: int) -> None:
        for region in regions:
            cycles = side.inclusive(region) if region.kind == "loop" else region.totals.cycles
            width = cycles * scale
            if width >= _LEAST:
                pieces.append(_piece(code, place, region, cycles, (at, depth * ROW, width)))
                add([r for r in side.loops if r.inside == region.begin], at, depth + 1)
            at += width

    outer = [r for r in side.made.regions if r.inside is None]
    order = sorted(outer, key=lambda r: (r.kind == "straight", r.begin))
    add([r for r in order if r.kind == "loop"], 0.0, 1)
    loops = sum(side.inclusive(r) for r in outer if r.kind == "loop")
    add([r for r in order if r.kind == "straight"], loops * scale, 1)
    deepest = max(piece.y for piece in pieces)
    told = "; ".join(piece.title for piece in pieces)
    return Icicle(deepest + ROW, tuple(pieces), told)


def _piece(
    code: Code, place: int, region: Region, cycles: int, box: tuple[float, float, float]
) -> Piece:
    side, row = code.sides[place], code.row_of(place, region)
    origin = side.origin(region)
    if region.kind == "straight":
        name = "outside of loops" if region.function == side.symbol else region.function
    else:
        name = origin.title if origin else f"loop at {region.begin:#x}"
    share = f"{100 * cycles / side.made.cycles:.1f} %"
    x, y, width = box
    return Piece(
        round(x, 2),
        y,
        round(width, 2),
        row.colour if row else "loop-none",
        _fitting(f"{name} {share}", width),
        f"{name}: {cycles:,} model cycles, {share}",
        row.number if row else None,
    )


def _fitting(text: str, width: float) -> str:
    """``text`` if it fits, else as much as does."""
    room = int((width - 10) / _LETTER)
    if len(text) <= room:
        return text
    return text[: room - 1] + "\N{HORIZONTAL ELLIPSIS}" if room > 4 else ""


LEFT, TOP, LANE, BAR = 56.0, 6.0, 22.0, 16.0
_SHORTEST, _WIDEST = 8.0, 40.0
"""Pixels of a cycle."""
_MOST_PIXELS = 12_000.0


@dataclass(frozen=True)
class Bar:
    """An instruction in its slot, or a wait behind a packet. ``address`` tells the packet."""

    x: float
    y: float
    width: float
    colour: str
    address: int
    title: str


@dataclass(frozen=True)
class Timeline:
    """One time through a loop on ``side``, on average. ``cut`` are packets that did not fit."""

    side: int
    width: float
    height: float
    lanes: tuple[tuple[str, float], ...]
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    cycles: float
    cut: int
    bar_height: float = BAR


def timelines(code: Code, row: Row) -> list[Timeline]:
    """One for each side that has the loop of ``row``, on one scale."""
    found = [listing for listing in row.listings if listing is not None]
    longest = max((listing.cycles_a_time for listing in found), default=1.0) or 1.0
    scale = min(_WIDEST, max(_SHORTEST, (WIDTH - LEFT - 10) / longest))
    return [_timeline(code.sides[listing.side], row, listing, scale) for listing in found]


def _timeline(side: CodeSide, row: Row, listing: Listing, scale: float) -> Timeline:
    times = max(1, listing.region.times)
    group = {part.cause: part.group for part in side.made.parts}
    bars: list[Bar] = []
    at, shown = 0.0, 0
    for line in listing.lines:
        packet = line.packet
        if (at + packet.cycles / times) * scale > _MOST_PIXELS:
            break
        shown += 1
        issue = packet.issue / times
        for lane, instructions in enumerate(line.slots):
            if instructions and issue:
                text = " ; ".join(text for text, _ in instructions)
                title = f"slot {SLOTS[lane]}, from cycle {at:.1f}: {text}"
                bars.append(_bar(at, issue, lane, row.colour, packet.address, title, scale))
        at += issue
        for cause, cycles in line.causes:
            wait = cycles / times
            title = f"{wait:.2f} cycles for {cause} at {packet.address:#x}"
            colour = f"group-{group.get(cause, 'dependency')}"
            bars.append(_bar(at, wait, len(SLOTS), colour, packet.address, title, scale))
            at += wait
    names = [*(f"slot {slot}" for slot in SLOTS), "stalls"]
    step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500) if s * scale >= 50), 1000)
    return Timeline(
        listing.side,
        max(WIDTH, round(LEFT + at * scale + 20, 1)),
        TOP + LANE * len(names) + 24,
        tuple((name, TOP + LANE * n + BAR - 3) for n, name in enumerate(names)),
        tuple(bars),
        tuple((LEFT + n * scale, str(n)) for n in range(0, int(at) + 1, step)),
        at,
        len(listing.region.packets) - shown,
    )


def _bar(
    at: float, cycles: float, lane: int, colour: str, address: int, title: str, scale: float
) -> Bar:
    width = max(1.0, cycles * scale - 1)
    return Bar(
        round(LEFT + at * scale, 2), TOP + LANE * lane, round(width, 2), colour, address, title
    )
