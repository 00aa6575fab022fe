"""The operators of the form in C, which promotes, leaves overflow undefined and divides otherwise.

Where C has no operator of that meaning, it is a small function, defined once for each type that
needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tuner.program.expressions import (
    BITWISE,
    COMPARISONS,
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Expr,
    Unary,
)
from tuner.program.intervals import Scope, of_type
from tuner.program.types import BOOL, I32, Type

_SUFFIX = {(32, True): "", (32, False): "u", (64, True): "ll", (64, False): "ull"}
_CHOICE, _LOGIC, _COMPARED, _SHIFTED, _SUM, _PRODUCT, _CAST, _ATOM = range(8)


class Text(NamedTuple):
    """An expression of C, and how tight its operator binds."""

    text: str
    level: int = _ATOM

    def within(self, level: int) -> str:
        """It, as a part of an operator that binds as tight as ``level``."""
        return self.text if self.level >= level else f"({self.text})"


def typename(kind: Type) -> str:
    """C's name of a type."""
    return "int" if kind == BOOL else f"{'' if kind.is_signed else 'u'}int{kind.bits}_t"


def constant(value: int, kind: Type) -> Text:
    """A number as C has it; the least has no literal."""
    suffix = _SUFFIX.get((kind.bits, kind.is_signed), "")
    if value == kind.low and kind.overflow_is_undefined:
        return Text(f"{value + 1}{suffix} - 1", _SUM)
    return Text(f"{value}{suffix}", _CAST if value < 0 else _ATOM)


def chosen(condition: Text, one: Text, other: Text) -> Text:
    """``one`` if ``condition`` holds, else ``other``."""
    # Brackets around bits that are tested, as compilers ask for.
    return Text(f"{condition.within(_COMPARED)} ? {one.within(_LOGIC)} : {other.text}", _CHOICE)


def _cast(kind: Type, part: Text) -> Text:
    return Text(f"({typename(kind)}){part.within(_CAST)}", _CAST)


def infix(by: str, a: Text, b: Text) -> Text:
    """Mixed with sums or one another, comparisons, shifts and bits are put in brackets: few know
    which of them binds tighter."""
    level = _LEVELS.get(by, _COMPARED)
    if level in (_SUM, _PRODUCT):
        return Text(f"{a.within(level)} {by} {b.within(level + 1)}", level)
    inner = _SUM if level == _COMPARED else _CAST
    return Text(f"{a.within(inner)} {by} {b.within(inner)}", level)


_LEVELS = {
    **dict.fromkeys("&|^", _LOGIC),
    **dict.fromkeys(("<<", ">>"), _SHIFTED),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}


class Operators:
    """Operators, and the functions that those need which were asked for.

    What has a type of less than 32 bits is an int in C, with the same value; only what may be
    beyond its type is cast to it.
    """

    def __init__(self) -> None:
        self._functions: dict[str, str] = {}

    def definitions(self) -> Iterator[str]:
        """The functions, each in a few lines."""
        for text in self._functions.values():
            yield from (*text.splitlines(), "")

    def value(self, node: Expr, parts: Sequence[Text], scope: Scope) -> Text:
        """The value of an operator, of its ``parts``, where ``scope`` is what is known."""
        fits = of_type(node.type).covers(scope.exact(node))
        if isinstance(node, Binary):
            if fits and (plain := _plain(node, scope)):
                return infix(plain, *parts)
            return self._binary(node, *parts)
        if isinstance(node, Cast):
            if node.saturates:
                return self._saturated(node, *parts)
            promotes = node.operand.type.bits < 32 and _is_int(node.type)
            return parts[0] if promotes and fits else _cast(node.type, *parts)
        assert isinstance(node, Unary)  # noqa: S101 - the last kind that computes
        if node.operator == "~":
            sign = "!" if node.type == BOOL else "~"
            inverted = Text(f"{sign}{parts[0].within(_CAST)}", _CAST)
            return inverted if node.type == BOOL else _cast(node.type, inverted)
        body = _UNARY[node.operator]
        return self._called(node.operator, body, node.type, parts, node.operand.type)

    def _called(
        self, name: str, body: str, made: Type, parts: Sequence[Text], *kinds: Type
    ) -> Text:
        """A call of the function ``name`` with that ``body``, in which T is the type of its value,
        A that of its first argument, U that one unsigned and B its bits."""
        own = "_".join((name, *(str(kind) for kind in dict.fromkeys(kinds))))
        if own not in self._functions:
            a = kinds[0]
            words = {"T": typename(made), "A": typename(a), "U": typename(a.unsigned)}
            words |= {"B": str(a.bits), "W": typename(_wide(a))}
            for word, text in words.items():
                body = body.replace(f"${word}", text)
            body = body.replace("; ", ";\n    ")
            given = ", ".join(f"{typename(k)} {n}" for k, n in zip(kinds, "ab", strict=False))
            self._functions[own] = (
                f"static inline {typename(made)} {own}({given})\n{{\n    {body}\n}}"
            )
        return Text(f"{own}({', '.join(part.text for part in parts)})")

    def _saturated(self, node: Cast, part: Text) -> Text:
        own, kind = node.operand.type, node.type
        body = "".join(
            f"if (a {by} {constant(end, own).text}) return {constant(end, kind).text}; "
            for by, end, is_beyond in (
                ("<", kind.low, own.low < kind.low),
                (">", kind.high, own.high > kind.high),
            )
            if is_beyond
        )
        return self._called(f"sat_{kind}", f"{body}return ($T)a;", kind, [part], own)

    def _binary(self, node: Binary, a: Text, b: Text) -> Text:
        by, kind = node.operator, node.left.type
        if by in COMPARISONS or kind == BOOL:
            return infix(by, a, b)
        if by in BITWISE:
            return _narrowed(kind, infix(by, a, b))
        if by in ("+", "-", "*"):
            return _wrapping(by, kind, a, b)
        if by in SHIFTS:
            return self._shift(node, a, b)
        if by in ("//", "%"):
            if not kind.is_signed and isinstance(node.right, Constant) and node.right.value:
                return _narrowed(kind, infix(by[0], a, b))
            body = (_SIGNED if kind.is_signed else _UNSIGNED)[by]
            return self._called({"//": "div", "%": "mod"}[by], body, kind, [a, b], kind, kind)
        return self._called(by, _PAIRS[by], node.type, [a, b], kind, kind)

    def _shift(self, node: Binary, a: Text, b: Text) -> Text:
        kind, amount = node.left.type, node.right
        is_left = node.operator == "<<"
        if isinstance(amount, Constant) and 0 <= amount.value < kind.bits:
            by = Text(str(amount.value))
            if not is_left:
                return _narrowed(kind, infix(">>", a, by))
            return _cast(kind, infix("<<", _cast(_wide(kind), a), by))
        left, right = "($T)(($W)a << {})", "($T)(a >> {})"
        gone = "(a < 0 ? -1 : 0)" if kind.is_signed else "0"
        ends = (left, "0"), (right, gone)
        (own, beyond), (other, before) = ends if is_left else ends[::-1]
        body = f"if (b >= $B) return {beyond}; "
        if amount.type.is_signed:
            body += f"if (b <= -$B) return {before}; if (b < 0) return {other.format('-b')}; "
        body += f"return {own.format('b')};"
        return self._called("shl" if is_left else "shr", body, kind, [a, b], kind, amount.type)


def _is_int(kind: Type) -> bool:
    """Whether C computes in an int what has this type."""
    return kind.bits < 32 or kind == I32


def _plain(node: Binary, scope: Scope) -> str:
    """C's operator of the same meaning where ``node`` fits its type; empty if it has none."""
    by = node.operator
    if by in ("+", "-", "*", "&", "|", "^"):
        return by
    if by in ("//", "%") and scope.of(node.left).low >= 0 and scope.of(node.right).low > 0:
        return by[0]
    return ""


def _wide(kind: Type) -> Type:
    """The unsigned type in which arithmetic wraps, and is not done in an int."""
    return Type(max(32, kind.bits), False)


def _narrowed(kind: Type, part: Text) -> Text:
    """What C computes in an int if ``kind`` is narrower."""
    return _cast(kind, part) if kind.bits < 32 else part


def _wrapping(by: str, kind: Type, a: Text, b: Text) -> Text:
    if kind.bits < 32 and (by != "*" or kind.is_signed):
        return _cast(kind, infix(by, a, b))  # an int has room
    if not kind.is_signed and kind.bits >= 32:
        return infix(by, a, b)
    return _cast(kind, infix(by, _cast(_wide(kind), a), _cast(_wide(kind), b)))


_UNARY = {
    "abs": "return ($T)(a < 0 ? 0 - ($W)a : ($W)a);",
    "popcount": "return ($T)__builtin_popcountll(($U)a);",
    "clz": "return ($T)(($U)a ? __builtin_clzll(($U)a) - (64 - $B) : $B);",
    "ctz": "return ($T)(($U)a ? __builtin_ctzll(($U)a) : $B);",
}
_PAIRS = {
    "min": "return a < b ? a : b;",
    "max": "return a > b ? a : b;",
    "absd": "return ($T)(a > b ? ($W)a - ($W)b : ($W)b - ($W)a);",
}
_UNSIGNED = {"//": "return b ? ($T)(a / b) : 0;", "%": "return b ? ($T)(a % b) : 0;"}
_SIGNED = {
    # The least number by -1 is beyond the type, and wraps.
    "//": "if (b == 0) return 0; if (b == -1) return ($T)(0 - ($W)a); "
    "return ($T)(a / b - (a % b < 0 ? (b > 0 ? 1 : -1) : 0));",
    "%": "if (b == 0 || b == -1) return 0; "
    "return ($T)(a % b < 0 ? (b > 0 ? a % b + b : a % b - b) : a % b);",
}
