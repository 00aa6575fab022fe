"""Reading Halide's printed expressions: its Python wheel shows them in no other way."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CALL = re.compile(r"([A-Za-z_][\w$.]*)\(")
_TYPE = re.compile(r"\bu?int(\d+)(?:x\d+)?\b")
_WORD = re.compile(r"[A-Za-z_][\w$.]*")
_SIGNS = "(+-*/%<>"
_DIVISION = re.compile(r"[/%](?!\s*(?:\(u?int\d+\))?\d+\b)")
_DIVISION_OPERATIONS = 2000
"""HVX has no division: by anything but a constant LLVM writes one out for each lane."""
_BYTE = r"\(?u?int8\)?"


def printed(expression: object) -> str:
    """The text of an expression, without what Python says around it."""
    text = str(expression)
    _, found, inside = text.partition(": ")
    return inside[:-1] if found and text.startswith("<") else text


def arguments_of(text: str, start: int) -> tuple[str, ...]:
    """The arguments between the bracket that opens at ``start`` and the one that closes it."""
    depth, begin = 0, start + 1
    found = []
    for at in range(start, len(text)):
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                found.append(text[begin:at].strip())
                break
        elif char == "," and depth == 1:
            found.append(text[begin:at].strip())
            begin = at + 1
    return tuple(one for one in found if one)


def calls_of(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every call with its arguments, nested ones too. Operators that print as calls come along."""
    for match in _CALL.finditer(text):
        yield match[1], arguments_of(text, match.end() - 1)


def bits_of(text: str) -> set[int]:
    """The sizes of all integer types that are named."""
    return {int(bits) for bits in _TYPE.findall(text)}


def operations_of(text: str) -> int:
    """How much there is to compute, by its signs."""
    divisions = len(_DIVISION.findall(text))
    return sum(map(text.count, _SIGNS)) + _DIVISION_OPERATIONS * divisions


def follows_loops(index: str, calls: frozenset[str], fixed: frozenset[str]) -> bool:
    """Whether an index moves beyond every bound as its loops do, those named in ``fixed`` aside.

    Not so if it is clamped from both sides, or comes out of a table of values, whose type bounds
    it.
    """
    inner = dict(calls_of(index))
    if calls & inner.keys():
        return False
    moving = set(_WORD.findall(index)) - inner.keys() - fixed
    return bool(moving) and not {"max", "min"} <= inner.keys()


def combination(text: str, own: str) -> str:
    """How an update joins a term to its old value, itself the first operand or the second."""
    body = text.strip()
    while body.startswith("(") and _closes_at_end(body):
        body = body[1:-1].strip()
    for name in ("max", "min"):
        if body.startswith(f"{name}("):
            operands = arguments_of(body, len(name))
            if any(_is_call(one, own) for one in operands):
                return name
    first = re.match(rf"\(u?int\d+\){re.escape(own)}(?=\()", body)
    if first is not None and _after_call(body, first.end()).startswith(" + "):
        return "sum"
    return ""


def is_dot(text: str) -> bool:
    """Whether the term is a product of two 8-bit values, each widened to 32 bits."""
    wide = r"u?int32\("
    halves = r"u?int16\("
    byte = rf"{_BYTE}[A-Za-z_]"
    return bool(
        re.search(rf"{wide}{byte}.*\*\s*{wide}{byte}", text)
        or re.search(rf"{wide}.*{halves}{byte}.*\*\s*{halves}{byte}", text)
        or re.search(rf"widening_mul\({byte}", text)
    )


def _closes_at_end(text: str) -> bool:
    depth = 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0:
            # A leading cast, "(uint16)f(x)", closes at once.
            return at == len(text) - 1
    return False


def _is_call(text: str, own: str) -> bool:
    match = re.match(rf"(?:\(u?int\d+\))?{re.escape(own)}(?=\()", text)
    return match is not None and _after_call(text, match.end()) == ""


def _after_call(text: str, start: int) -> str:
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[at + 1 :]
    return ""
