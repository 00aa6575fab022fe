"""Reading Halide's printed expressions: its Python wheel shows them in no other way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_CALL = re.compile(r"([A-Za-z_][\w$.]*)\(")
_TYPE = re.compile(r"\bu?int(\d+)(?:x\d+)?\b")
_WORD = re.compile(r"[A-Za-z_][\w$.]*")
_SIGNS = "(+-*/%<>"
_DIVISION = re.compile(r"[/%]")
_CAST = re.compile(r"\s*(?:\(u?int(\d+)\))?\s*")
_PLACE = re.compile(r"[\w$.]+\.(?:min|extent|stride)\.\d+")
"""Where a buffer begins and ends."""
_DIVISION_OPERATIONS = 4000
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


def words_of(text: str) -> list[str]:
    """Every name in it, those of types and operators that print as calls included."""
    return _WORD.findall(text)


def bits_of(text: str) -> set[int]:
    """The sizes of all integer types that are named."""
    return {int(bits) for bits in _TYPE.findall(text)}


def operations_of(text: str) -> int:
    """How much there is to compute, by its signs."""
    divisions = sum(not _is_cheap(divisor) for _, divisor, _ in _divisions(text))
    return sum(map(text.count, _SIGNS)) + _DIVISION_OPERATIONS * divisions


def divided(text: str) -> Iterator[str]:
    """Every dividend of 32 bits that is divided by a constant other than a power of two.

    Halide multiplies it with a reciprocal of 64 bits, of which HVX has no vectors.
    """
    for dividend, divisor, bits in _divisions(text):
        number = int(divisor) if divisor.isdigit() else 0
        if bits == 32 and number & (number - 1):
            yield dividend


def _divisions(text: str) -> Iterator[tuple[str, str, int]]:
    """Dividend, divisor and the latter's bits. What no type is printed with has 32."""
    for match in _DIVISION.finditer(text):
        cast = _CAST.match(text, match.end())
        assert cast is not None  # noqa: S101 - it matches nothing, too
        end = _operand_end(text, cast.end())
        before = _operand_begin(text, match.start())
        yield text[before : match.start()].strip(), text[cast.end() : end], int(cast[1] or 32)


def _operand_end(text: str, start: int) -> int:
    """The end of the number, name, call or bracket that begins at ``start``."""
    word = re.compile(r"[\w$.]*").match(text, start)
    end = word.end() if word is not None else start
    if end < len(text) and text[end] == "(":
        return len(text) - len(_after_call(text, end))
    return end


def _operand_begin(text: str, end: int) -> int:
    """The beginning of the number, name, call or bracket that ends at ``end``."""
    at = len(text[:end].rstrip())
    depth = 0
    while at > 0:
        char = text[at - 1]
        depth += {")": 1, "(": -1}.get(char, 0)
        if depth < 0 or (depth == 0 and not (char.isalnum() or char in "_$.(")):
            break
        at -= 1
    return at


def _is_cheap(divisor: str) -> bool:
    """Whether vectors are divided by it in a few operations: a number, or powers of two."""
    if divisor.isdigit():
        return True
    if _WORD.search(_PLACE.sub("", divisor)):
        return False
    numbers = map(int, re.findall(r"\d+", _PLACE.sub("", divisor)))
    return not any(number & (number - 1) for number in numbers)


def strided_reads(text: str, known: frozenset[str], dimension: str) -> int:
    """How many reads of ``known`` do not go along the rows in memory as ``dimension`` does."""
    return sum(
        any(dimension in _WORD.findall(one) for one in outer)
        and dimension not in _WORD.findall(inner)
        for called, (inner, *outer) in _reads(text, known)
    )


def only_picks(text: str, known: frozenset[str], dimension: str) -> bool:
    """Whether ``dimension`` is nothing in ``text`` but the first index of what is read."""
    everywhere = _WORD.findall(text).count(dimension)
    picked = sum(indices[0] == dimension for _, indices in _reads(text, known))
    return everywhere == picked


def chooses(text: str, dimension: str) -> bool:
    """Whether the number of ``dimension`` decides which of several values there is."""
    own = re.escape(dimension)
    return bool(re.search(rf"\bmux\({own},|\({own} == \d+\)", text))


def reads_multiples(text: str, name: str) -> bool:
    """Whether ``name`` is read along its rows at multiples of something."""
    return any("*" in inner for _, (inner, *_) in _reads(text, frozenset({name})))


def looks_up(text: str, known: frozenset[str]) -> bool:
    """Whether one of ``known`` is read at a place that comes from one of them."""
    return any(
        called in known
        for _, indices in _reads(text, known)
        for index in indices
        for called, _ in calls_of(index)
    )


def reads_apart(text: str, name: str, own: Sequence[str]) -> bool:
    """Whether ``name`` is read along its rows at other places than ``own``, a loop alone."""
    return any([inner] != [*own] for _, (inner, *_) in _reads(text, frozenset({name})))


def repeats(text: str, known: frozenset[str]) -> bool:
    """Whether one of ``known`` is read more than once at one place. What is printed under a name is
    used more than once."""
    if "let " in text:
        return True
    reads = list(_reads(text, known))
    return len({*reads}) < len(reads)


def along_rows(text: str, known: frozenset[str], variable: str) -> bool:
    """Whether ``variable`` moves all reads of ``known`` that it moves along their rows, from each
    element to the next."""
    beside = re.compile(rf"\(?{re.escape(variable)}( [+-] \d+)?\)?")
    moved = [
        indices
        for _, indices in _reads(text, known)
        if any(variable in _WORD.findall(index) for index in indices)
    ]
    return bool(moved) and all(
        beside.fullmatch(inner) and not any(variable in _WORD.findall(one) for one in outer)
        for inner, *outer in moved
    )


def gathers(text: str, known: frozenset[str]) -> bool:
    """Whether any of ``known`` is read along its rows at quotients or remainders."""
    return any(_DIVISION.search(inner) for _, (inner, *_) in _reads(text, known))


def _reads(text: str, known: frozenset[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    return ((name, indices) for name, indices in calls_of(text) if name in known and indices)


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
    body = _unwrapped(text)
    for name in ("max", "min"):
        if body.startswith(f"{name}("):
            operands = arguments_of(body, len(name))
            if any(_is_call(one, own) for one in operands):
                return name
    return "sum" if _term_of_sum(body, own) else ""


def is_byte_sum(text: str, own: str) -> bool:
    """Whether an update adds one unsigned byte to its old value of 32 bits.

    Signed ones are not meant: Halide 21 lacks the ``vrmpy`` that adds them
    (``add_4mpy.vb.b`` not found).
    """
    byte = re.match(r"u?int32\(\(uint8\)[A-Za-z_][\w$.]*(?=\()", _term_of_sum(text, own))
    return byte is not None and _after_call(byte.string, byte.end()) == ")"


def _term_of_sum(text: str, own: str) -> str:
    """The term that an update adds to its old value; empty if it does anything else."""
    body = _unwrapped(text)
    # Halide prints no type before values of int32.
    first = re.match(rf"(?:\(u?int\d+\))?{re.escape(own)}(?=\()", body)
    rest = "" if first is None else _after_call(body, first.end())
    return rest.removeprefix(" + ") if rest.startswith(" + ") else ""


def _unwrapped(text: str) -> str:
    """An expression without brackets around it, nor the names that it gives its parts."""
    body = text.strip()
    while True:
        if body.startswith("(") and _closes_at_end(body):
            body = body[1:-1].strip()
        elif body.startswith("let ") and " in " in body:
            body = body[_end_of_let(body) :].strip()
        else:
            return body


def _end_of_let(text: str) -> int:
    """Where the expression that a leading ``let`` is for begins."""
    depth = 0
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0 and text.startswith(" in ", at):
            return at + len(" in ")
    return len(text)


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
