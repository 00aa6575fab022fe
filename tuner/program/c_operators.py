"""The operators of the form in C, which promotes, leaves overflow undefined and divides otherwise.

Where C has no operator of that meaning, it is a small function, defined once for each type that
needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.program.expressions import COMPARISONS, Binary, Cast, Constant, Expr, Unary
from tuner.program.types import BOOL, INDEX, Type

_SUFFIX = {(32, True): "", (32, False): "u", (64, True): "ll", (64, False): "ull"}


def typename(kind: Type) -> str:
    """C's name of a type."""
    return "int" if kind == BOOL else f"{'' if kind.is_signed else 'u'}int{kind.bits}_t"


def constant(value: int, kind: Type) -> str:
    """A number as C has it; the least has no literal."""
    suffix = _SUFFIX.get((kind.bits, kind.is_signed), "")
    if value == kind.low and kind.overflow_is_undefined:
        return f"({value + 1}{suffix} - 1)"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


class Operators:
    """Operators, and the functions that those need which were asked for."""

    def __init__(self) -> None:
        self._functions: dict[str, str] = {}

    def definitions(self) -> Iterator[str]:
        """The functions, each in a few lines."""
        for text in self._functions.values():
            yield from (*text.splitlines(), "")

    def index(self, node: Expr, parts: Sequence[str]) -> str:
        """The value of an index that does not overflow; empty if that makes no difference."""
        is_plain = (
            isinstance(node, Binary) and node.type == INDEX and node.operator in ("+", "-", "*")
        )
        return f"({parts[0]} {node.operator} {parts[1]})" if is_plain else ""  # type: ignore[attr-defined]

    def value(self, node: Expr, parts: Sequence[str]) -> str:
        """The value of an operator, of its ``parts``."""
        if isinstance(node, Binary):
            return self._binary(node, *parts)
        if isinstance(node, Cast):
            return self._cast(node, *parts)
        assert isinstance(node, Unary)  # noqa: S101 - the last kind that computes
        if node.operator == "~":
            return (
                f"(!{parts[0]})" if node.type == BOOL else f"(({typename(node.type)})~{parts[0]})"
            )
        return self._called(
            node.operator, _UNARY[node.operator], node.type, parts, node.operand.type
        )

    def _called(self, name: str, body: str, made: Type, parts: Sequence[str], *kinds: Type) -> str:
        """A call of the function ``name`` with that ``body``, in which T is the type of its value,
        A that of its first argument, U that one unsigned and B its bits."""
        own = "_".join((name, *(str(kind) for kind in dict.fromkeys(kinds))))
        if own not in self._functions:
            a = kinds[0]
            wide = Type(max(32, a.bits), False)
            words = {"T": typename(made), "A": typename(a), "U": typename(a.unsigned)}
            words |= {"B": str(a.bits), "W": typename(wide)}
            for word, text in words.items():
                body = body.replace(f"${word}", text)
            body = body.replace("; ", ";\n    ")
            given = ", ".join(f"{typename(k)} {n}" for k, n in zip(kinds, "ab", strict=False))
            self._functions[own] = (
                f"static inline {typename(made)} {own}({given})\n{{\n    {body}\n}}"
            )
        return f"{own}({', '.join(parts)})"

    def _cast(self, node: Cast, part: str) -> str:
        if not node.saturates:
            return f"(({typename(node.type)}){part})"
        own, kind = node.operand.type, node.type
        body = "".join(
            f"if (a {by} {constant(end, own)}) return {constant(end, kind)}; "
            for by, end, is_beyond in (
                ("<", kind.low, own.low < kind.low),
                (">", kind.high, own.high > kind.high),
            )
            if is_beyond
        )
        return self._called(f"sat_{kind}", f"{body}return ($T)a;", kind, [part], own)

    def _binary(self, node: Binary, a: str, b: str) -> str:
        by, kind = node.operator, node.left.type
        if by in COMPARISONS or kind == BOOL:
            return f"({a} {by} {b})"
        if by in ("&", "|", "^"):
            return f"(({typename(kind)})({a} {by} {b}))"
        if by in ("+", "-", "*"):
            return _wrapping(by, kind, a, b)
        if by in ("<<", ">>"):
            return self._shift(node, a, b)
        if by in ("//", "%"):
            is_plain = not kind.is_signed and isinstance(node.right, Constant) and node.right.value
            if is_plain:
                return f"(({typename(kind)})({a} {by[0]} {b}))"
            body = (_SIGNED if kind.is_signed else _UNSIGNED)[by]
            return self._called({"//": "div", "%": "mod"}[by], body, kind, [a, b], kind, kind)
        return self._called(by, _PAIRS[by], node.type, [a, b], kind, kind)

    def _shift(self, node: Binary, a: str, b: str) -> str:
        kind, amount = node.left.type, node.right
        is_left = node.operator == "<<"
        left, right = "($T)(($W)a << {})", "($T)(a >> {})"
        if isinstance(amount, Constant) and 0 <= amount.value < kind.bits:
            if not is_left:
                return f"(({typename(kind)})({a} >> {amount.value}))"
            wide = typename(Type(max(32, kind.bits), False))
            return f"(({typename(kind)})(({wide}){a} << {amount.value}))"
        gone = "(a < 0 ? -1 : 0)" if kind.is_signed else "0"
        ends = (left, "0"), (right, gone)
        (own, beyond), (other, before) = ends if is_left else ends[::-1]
        body = f"if (b >= $B) return {beyond}; "
        if amount.type.is_signed:
            body += f"if (b <= -$B) return {before}; if (b < 0) return {other.format('-b')}; "
        body += f"return {own.format('b')};"
        return self._called("shl" if is_left else "shr", body, kind, [a, b], kind, amount.type)


def _wrapping(by: str, kind: Type, a: str, b: str) -> str:
    name = typename(kind)
    if kind.bits < 32 and (by != "*" or kind.is_signed):
        return f"(({name})({a} {by} {b}))"  # an int has room
    if not kind.is_signed and kind.bits >= 32:
        return f"({a} {by} {b})"
    wide = typename(Type(max(32, kind.bits), False))
    return f"(({name})(({wide}){a} {by} ({wide}){b}))"


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
