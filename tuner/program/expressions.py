"""Expressions: seven kinds of node, each with a type, each made once.

Nodes with the same content are the same object: they compare and hash by identity, and an
expression is a graph that shares its parts. Operators of Python build them; an ``int`` beside an
expression is a constant of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any, Literal, get_args
from weakref import WeakValueDictionary

from tuner.errors import UserError
from tuner.program.types import BOOL, INDEX, Type

Arithmetic = Literal["+", "-", "*", "//", "%", "min", "max", "absd"]
Bitwise = Literal["&", "|", "^"]
Shift = Literal["<<", ">>"]
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
BinaryOperator = Arithmetic | Bitwise | Shift | Comparison
UnaryOperator = Literal["~", "abs", "popcount", "clz", "ctz"]

ARITHMETIC: tuple[Arithmetic, ...] = get_args(Arithmetic)
BITWISE: tuple[Bitwise, ...] = get_args(Bitwise)
SHIFTS: tuple[Shift, ...] = get_args(Shift)
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)


class ProgramError(UserError):
    """A program that means nothing: types that do not fit, names that do not exist."""


def require(fits: bool, message: str) -> None:
    """Raises :class:`ProgramError` with ``message`` unless it ``fits``."""
    if not fits:
        raise ProgramError(message)


_made: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_making = Lock()


class _MadeOnce(type):
    """Of classes that have one object for one content."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made: Expr = super().__call__(*args, **kwargs)
        with _making:
            return _made.setdefault((cls, *made.content), made)


class Expr(metaclass=_MadeOnce):
    """A node. ``type`` is that of its value."""

    type: Type

    @property
    def content(self) -> tuple[Any, ...]:
        """The arguments that make it."""
        return tuple(getattr(self, one.name) for one in fields(self) if one.init)  # type: ignore[arg-type]

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is made of directly."""
        return ()

    def of(self, parts: Iterable[Expr]) -> Expr:
        """The same node of other ``parts``."""
        return self

    def __repr__(self) -> str:
        # Of one node: spelt out, expressions that share parts grow beyond all measure.
        told = ("..." if isinstance(one, Expr | tuple) else str(one) for one in self.content)
        return f"{type(self).__name__}({', '.join(told)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.content

    def __add__(self, other: Expr | int) -> Expr:
        return _joined("+", self, other)

    def __radd__(self, other: int) -> Expr:
        return _joined("+", other, self)

    def __sub__(self, other: Expr | int) -> Expr:
        return _joined("-", self, other)

    def __rsub__(self, other: int) -> Expr:
        return _joined("-", other, self)

    def __mul__(self, other: Expr | int) -> Expr:
        return _joined("*", self, other)

    def __rmul__(self, other: int) -> Expr:
        return _joined("*", other, self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return _joined("//", self, other)

    def __mod__(self, other: Expr | int) -> Expr:
        return _joined("%", self, other)

    def __lshift__(self, other: Expr | int) -> Expr:
        return _joined("<<", self, other)

    def __rshift__(self, other: Expr | int) -> Expr:
        return _joined(">>", self, other)

    def __and__(self, other: Expr | int) -> Expr:
        return _joined("&", self, other)

    def __or__(self, other: Expr | int) -> Expr:
        return _joined("|", self, other)

    def __xor__(self, other: Expr | int) -> Expr:
        return _joined("^", self, other)

    def __lt__(self, other: Expr | int) -> Expr:
        return _joined("<", self, other)

    def __le__(self, other: Expr | int) -> Expr:
        return _joined("<=", self, other)

    def __gt__(self, other: Expr | int) -> Expr:
        return _joined(">", self, other)

    def __ge__(self, other: Expr | int) -> Expr:
        return _joined(">=", self, other)

    def __invert__(self) -> Expr:
        return Unary("~", self)

    def __neg__(self) -> Expr:
        return 0 - self


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Expr):
    """A number."""

    value: int
    type: Type

    def __post_init__(self) -> None:
        require(self.type.holds(self.value), f"{self.value} is no {self.type}")


@dataclass(frozen=True, eq=False, repr=False)
class Variable(Expr):
    """The index of a loop, a size or a scalar."""

    name: str
    type: Type = INDEX


@dataclass(frozen=True, eq=False, repr=False)
class Load(Expr):
    """An element of an input, a table or a stage's array, of ``type``; indices outermost first."""

    source: str
    indices: tuple[Expr, ...]
    type: Type

    def __post_init__(self) -> None:
        for index in self.indices:
            require(index.type == INDEX, f"{self.source} is read at an index of {index.type}")

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.indices

    def of(self, parts: Iterable[Expr]) -> Expr:
        return Load(self.source, tuple(parts), self.type)


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    """``~`` (of conditions: not), ``abs`` (unsigned), and counts of bits: ``popcount``, and ``clz``
    and ``ctz`` of leading and trailing zeros (all bits of 0)."""

    operator: UnaryOperator
    operand: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        own = self.operand.type
        require(own != BOOL or self.operator == "~", f"{self.operator} of a condition")
        object.__setattr__(self, "type", own.unsigned if self.operator == "abs" else own)

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def of(self, parts: Iterable[Expr]) -> Expr:
        return Unary(self.operator, *parts)


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expr):
    """An operation on two values of one type, modulo ``2 ** bits`` of that type.

    Quotients and remainders are Halide's: the remainder is never negative, and both are 0 where the
    divisor is. Shifts by ``n`` multiply by ``2 ** n`` or ``2 ** -n`` and round down, whatever the
    sign of ``n``, which has the same width. ``absd`` is the absolute difference, unsigned.
    """

    operator: BinaryOperator
    left: Expr
    right: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        own, other, by = self.left.type, self.right.type, self.operator
        fits = own.bits == other.bits if by in SHIFTS else own == other
        require(fits, f"{by} of {own} and {other}; cast one of them")
        is_bit = by in BITWISE or by in ("==", "!=")
        require(own != BOOL or is_bit, f"{by} of conditions")
        made = BOOL if by in COMPARISONS else own.unsigned if by == "absd" else own
        object.__setattr__(self, "type", made)

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.left, self.right

    def of(self, parts: Iterable[Expr]) -> Expr:
        return Binary(self.operator, *parts)


@dataclass(frozen=True, eq=False, repr=False)
class Select(Expr):
    """``chosen`` where ``condition`` holds, else ``otherwise``. What is not taken is not read: it
    may lie beyond a buffer."""

    condition: Expr
    chosen: Expr
    otherwise: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        one, other = self.chosen.type, self.otherwise.type
        require(self.condition.type == BOOL, f"select by {self.condition.type}; compare it")
        require(one == other, f"select of {one} and {other}; cast one of them")
        object.__setattr__(self, "type", one)

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.condition, self.chosen, self.otherwise

    def of(self, parts: Iterable[Expr]) -> Expr:
        return Select(*parts)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr):
    """A value as another ``type``: modulo ``2 ** bits``, or brought into its range if it
    ``saturates``."""

    type: Type
    operand: Expr
    saturates: bool = False

    def __post_init__(self) -> None:
        require(self.type != BOOL, "a cast to a condition; compare it with 0")

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def of(self, parts: Iterable[Expr]) -> Expr:
        (operand,) = parts
        return Cast(self.type, operand, self.saturates)


def _joined(operator: BinaryOperator, left: Expr | int, right: Expr | int) -> Expr:
    if isinstance(left, int):
        assert isinstance(right, Expr)  # noqa: S101 - one of them is an expression
        left = Constant(left, right.type)
    if isinstance(right, int):
        right = Constant(right, left.type)
    return Binary(operator, left, right)


def minimum(left: Expr, right: Expr | int) -> Expr:
    """The lesser of two."""
    return _joined("min", left, right)


def maximum(left: Expr, right: Expr | int) -> Expr:
    """The greater of two."""
    return _joined("max", left, right)


def clamped(value: Expr, low: Expr | int, high: Expr | int) -> Expr:
    """``value`` brought into the range from ``low`` to ``high``."""
    return maximum(minimum(value, high), low)


def equal(left: Expr, right: Expr | int) -> Expr:
    """Whether both are the same number."""
    return _joined("==", left, right)


def ordered(
    roots: Iterable[Expr], into: Callable[[Expr], Iterable[Expr]] = lambda one: one.parts
) -> Iterator[Expr]:
    """All nodes in ``roots``, each once, after those that it is made of (``into`` says which)."""
    seen: set[Expr] = set()
    waiting = [(root, False) for root in roots][::-1]
    while waiting:
        node, is_due = waiting.pop()
        if is_due:
            yield node
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(part, False) for part in into(node) if part not in seen]


def rewritten(root: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """``root`` with ``rule`` applied to every node in it, its parts first."""
    made: dict[Expr, Expr] = {}
    for node in ordered([root]):
        parts = tuple(made[part] for part in node.parts)
        made[node] = rule(node if parts == node.parts else node.of(parts))
    return made[root]


def loads_in(*roots: Expr) -> list[Load]:
    """The loads in ``roots``, each once."""
    return [node for node in ordered(roots) if isinstance(node, Load)]
