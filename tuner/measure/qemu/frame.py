"""Vector accesses to the stack frame: what the compiler had no vector registers for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.measure.qemu.disassembly import Decoded

_STACK, _FRAME = 29, 30
"""Stack and frame pointer of Hexagon's calling convention."""
_ACCESS = re.compile(r"\bvmemu?\(r(\d+)")
_TARGET = re.compile(r"^(if .*\) )?r(\d+)(?::(\d+))? [-+|&^]?= (.*)$")
_ADDRESS = re.compile(r"^(?:add\()?r(\d+)(?:,##?-?\w+\))?$")
_INCREMENT = re.compile(r"\(r(\d+)(?:\+\+|=)")


def stack_accesses(packets: Mapping[int, Decoded]) -> dict[int, int]:
    """How many vector accesses to the stack frame each packet has, by its address.

    Counted are those whose base is the stack or frame pointer, or a register that the same basic
    block sets to an address in the frame: vmem reaches no further than eight vectors by itself.
    """
    joins = _joins(packets)
    found = {}
    frame = {_STACK, _FRAME}
    end = None
    for address, packet in sorted(packets.items()):
        if address != end or address in joins:
            frame = {_STACK, _FRAME}
        end = address + packet.size_bytes
        found[address] = sum(
            int(base) in frame
            for instruction in packet.instructions
            for base in _ACCESS.findall(instruction)
        )
        frame = {_STACK, _FRAME} if packet.flow.calls else _after(packet, frame)
    return found


def _joins(packets: Mapping[int, Decoded]) -> set[int]:
    """Where control may come from elsewhere than the packet before."""
    joins: set[int] = set()
    for packet in packets.values():
        joins.update(packet.flow.targets, packet.flow.calls)
        joins.update(start for _, start in packet.flow.loop_starts)
    return joins


def _after(packet: Decoded, frame: set[int]) -> set[int]:
    """The registers that hold addresses in the frame after ``packet``."""
    lost: set[int] = set()
    won: set[int] = set()
    for instruction in packet.instructions:
        lost.update(int(register) for register in _INCREMENT.findall(instruction))
        target = _TARGET.match(instruction)
        if target is None:
            continue
        condition, high, low, value = target.groups()
        lost.update(range(int(low or high), int(high) + 1))
        source = _ADDRESS.match(value)
        if source and int(source[1]) in frame and low is None and condition is None:
            won.add(int(high))
    return (frame - lost) | won | {_STACK, _FRAME}
