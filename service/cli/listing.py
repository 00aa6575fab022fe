"""A region of code packet by packet, with what each packet waits for.

Laid out for 80 columns and up: packets are broken between instructions, never inside one. This
module imports Rich and is itself imported late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from rich.text import Text

from service.cli.output import console
from tuner.measure.explanation import ExplainedPacket, Explanation, Region

LISTED_PACKETS = 20
"""Longer regions are listed without the packets there is nothing to say about."""
NARROWEST_PACKET = 40
"""Columns that packets get at least."""
_EVENT_TEXTS = {
    "l1_misses": "L1 misses",
    "l2_misses": "L2 misses",
    "line_splits": "line splits",
    "rarer_way": "mispredictions",
    "store_to_load": "",  # counts the very cycles that are booked under it
}
"""How events read in a remark; others as they are named."""
_REMARK_STYLE, _ASIDE_STYLE = "yellow", "dim"


def cause_text(cause: str, group: str) -> str:
    """A cause of stalls as part of a sentence. Dependencies are booked under who waits."""
    return f"operands of {cause}" if group == "dependency" else cause


def print_listing(region: Region, explanation: Explanation) -> None:
    """``region`` on standard output: a line or more for each packet, and one for each loop inside
    it and for packets left out."""
    screen = console()
    for line in _lines(region, explanation, screen.width):
        screen.print(line, soft_wrap=True)


def _lines(region: Region, explanation: Explanation, width: int) -> Iterator[Text]:
    most = max(packet.count for packet in region.packets)
    layout = _Layout(
        number_columns=max(len(f"{most:,}"), len("stalls")) + 2,
        width=width,
        groups={part.cause: part.group for part in explanation.parts},
    )
    yield Text(layout.margin("address", "times", "stalls") + "packet", style="bold")
    shortened = len(region.packets) > LISTED_PACKETS
    for silent, run in groupby(
        _items(region, explanation),
        key=lambda item: shortened and isinstance(item, ExplainedPacket) and not _remark(item, {}),
    ):
        items = list(run)
        if silent:
            packets = [item for item in items if isinstance(item, ExplainedPacket)]
            yield layout.aside(_silent_text(packets))
            continue
        for item in items:
            if isinstance(item, Region):
                share = item.totals.cycles / explanation.cycles
                yield layout.aside(f"loop {item.begin:#x}: {item.times:,} times, {share:.1%}")
            else:
                yield from layout.packet(item)


def _items(region: Region, explanation: Explanation) -> list[ExplainedPacket | Region]:
    """The packets of ``region`` and the loops right inside it, by address."""
    inner = (r for r in explanation.regions if r.kind == "loop" and r.inside == region.begin)
    placed: list[tuple[int, ExplainedPacket | Region]] = [
        *((packet.address, packet) for packet in region.packets),
        *((loop.begin, loop) for loop in inner),
    ]
    return [item for _, item in sorted(placed, key=lambda place: place[0])]


def _silent_text(packets: Sequence[ExplainedPacket]) -> str:
    cycles = sum(packet.cycles for packet in packets)
    what = "1 packet" if len(packets) == 1 else f"{len(packets)} packets"
    return f"{what}, {cycles:,} cycles"


@dataclass(frozen=True)
class _Layout:
    """Where things stand in a line, and to which group each cause belongs."""

    number_columns: int
    width: int
    groups: Mapping[str, str]

    def margin(self, address: str = "", times: str = "", stalls: str = "") -> str:
        """The columns left of a packet."""
        columns = self.number_columns
        return f"{address:>8}{times:>{columns}}{stalls:>{columns}}  "

    def aside(self, text: str) -> Text:
        """A line about code that is not listed."""
        return Text(f"{self.margin()}... {text}", style=_ASIDE_STYLE)

    def packet(self, packet: ExplainedPacket) -> Iterator[Text]:
        """The lines of one packet: its instructions, and a remark if there is one."""
        stalls = packet.cycles - packet.issue
        margin = self.margin(
            f"{packet.address:x}", f"{packet.count:,}", f"{stalls:,}" if stalls else ""
        )
        columns = max(self.width - len(margin), NARROWEST_PACKET)
        lines = [Text(line) for line in _broken(packet.text, columns)]
        remark = _remark(packet, self.groups)
        if remark and len(lines[-1]) + len("  ^ ") + len(remark) <= columns:
            lines[-1].append(f"  ^ {remark}", style=_REMARK_STYLE)
        elif remark:
            folded = wrap(remark, columns, initial_indent="   ^ ", subsequent_indent="     ")
            lines += [Text(line, style=_REMARK_STYLE) for line in folded]
        for line in lines:
            yield Text(margin) + line
            margin = self.margin()


def _broken(packet: str, columns: int) -> list[str]:
    """A packet's text in lines of at most ``columns``, broken between instructions."""
    first, *others = packet.split(" ; ")
    lines = [first]
    for instruction in others:
        if len(lines[-1]) + len(instruction) + len(" ;  ;") <= columns:
            lines[-1] += f" ; {instruction}"
        else:
            lines[-1] += " ;"
            lines.append(f"  {instruction}")
    return lines


def _remark(packet: ExplainedPacket, groups: Mapping[str, str]) -> str:
    """The reasons the packet waits for, its events, and its costly accesses."""
    stalls = sorted(packet.stalls.items(), key=lambda stall: -stall[1])
    waits = [
        cause_text(cause, groups.get(cause, "")) + (f" {cycles:,}" if len(stalls) > 1 else "")
        for cause, cycles in stalls
    ]
    events = [
        f"{count:,} {text}"
        for event, count in packet.events.items()
        if (text := _EVENT_TEXTS.get(event, event.replace("_", " ")))
    ]
    accesses = ["unaligned"] * bool(packet.unaligned) + ["spill"] * bool(packet.spills)
    return "; ".join([*([f"waits for {', '.join(waits)}"] if waits else []), *events, *accesses])
