"""Which of a packet's four slots each instruction takes.

Words of a packet lie in the order of their slots, from 3 down to 0: each takes the highest slot it
may have below the one before. Memory is reached from slots 1 and 0, the last access from 0.
Constant extenders are words without a slot. (QEMU, ``decode_set_slot_number`` and
``find_iclass_slots`` in target/hexagon; Hexagon PRM, "Grouping constraints": slots of each
instruction class; V66 HVX PRM, "Resource usage".)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.measure.qemu.units import MULTIPLY, units_of

_SLOTS = (3, 2, 1, 0)
_UPPER = (3, 2)

_ACCESS = re.compile(r"\bv?mem\w*\(|\bv?(?:gather|scatter)\w*\(|\b(?:de)?alloc(?:frame|_return)\b")
_FETCH = re.compile(r"^(?:dc|l2)\w+\(")
_NEW_JUMP = re.compile(r"^if \(!?cmp\.\w+\((?:[^()]*\.new)")
_INDIRECT = re.compile(r"\b(?:jumpr|callr|hintjr|rte)\b")
_JUMP = re.compile(r"\b(?:jump|call)\b")
_CONTROL = re.compile(r"^(?:[cm]\d+(?::\d+)? = |r\d+(?::\d+)? = [cm]\d|(?:p3 = sp\d)?loop[01]\()")
_ANYWHERE = re.compile(
    r"^(?:if \([^ ]+\) )?(?:nop$|[rp]\d+(?:\.[HL])? = "
    r"(?:#|r\d|(?:add|sub|and|or|xor|not|neg|mux|combine|!?cmp\.\w+|sxt[bh]|zxt[bh]|aslh|asrh)"
    r"\((?!r\d+:|[^()]*\())|r\d+:\d+ = combine\()"
)
"""ALU32: transfers, adds, logic and compares of 32 bits."""


def slots_of(
    words: Sequence[Sequence[str]], kinds: Sequence[Sequence[str]]
) -> list[tuple[int, ...]]:
    """The slot of each instruction of ``words``: one, two in a duplex, or a compare with its jump.
    Words that extend constants are left out.

    ``kinds`` are those of :class:`~tuner.measure.qemu.disassembly.Decoded`.
    """
    found: list[tuple[int, ...]] = []
    free = 3
    for place, (word, of_word) in enumerate(zip(words, kinds, strict=True)):
        duplex = len(word) == 2 and not _JUMP.search(word[1])
        if duplex:
            found.append((1, 0))
            continue
        least = min(3, len(words) - 1 - place)  # those behind need slots, too
        may = [slot for slot in _may(word[0], of_word[0], word) if slot <= free]
        slot = may[0] if may else max(0, min(free, least))
        found.append((slot,) * len(word))
        free = max(0, slot - 1)
    return _with_memory(words, found)


def _may(instruction: str, kind: str, word: Sequence[str]) -> tuple[int, ...]:
    if _is_memory(instruction):
        return (1, 0)
    if _NEW_JUMP.match(instruction):
        return (0,)
    if any(_INDIRECT.search(part) for part in word):
        return (2,)
    if any(_JUMP.search(part) for part in word):
        return _UPPER
    if _CONTROL.match(instruction):
        return (3,)
    if kind.startswith("vector "):
        return _UPPER if MULTIPLY in units_of(instruction, kind) else _SLOTS
    return _SLOTS if _ANYWHERE.match(instruction) else _UPPER


def _is_memory(instruction: str) -> bool:
    return bool(_ACCESS.search(instruction) or _FETCH.match(instruction))


def _with_memory(
    words: Sequence[Sequence[str]], found: list[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """The last access in slot 0, the one before it in slot 1."""
    slot = 0
    for place in reversed(range(len(words))):
        if len(words[place]) == 1 and _is_memory(words[place][0]):
            found[place] = (min(slot, 1),)
            slot += 1
    return found
