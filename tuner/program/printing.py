"""A program as text: the loops that it means, in the syntax of Python.

`parsing` reads it back. A number without a type has that of what stands beside it, of the array
that it is stored in, or is an index. What is used more than once, or
nests deep, gets a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from math import inf

from tuner.program.expressions import (
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    Select,
    Unary,
    Variable,
    ordered,
)
from tuner.program.loops import Buffer, Loop, Program, Scalar, Stage, Update, names_in
from tuner.program.types import BOOL, INDEX, Type

_STEP = "    "
_LOWEST, _ATOM = 0, 9
_PRECEDENCE = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 1),
    "|": 2,
    "^": 3,
    "&": 4,
    "<<": 5,
    ">>": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "//": 7,
    "%": 7,
}
"""Python's."""
_UNNAMED = 8
"""Nodes of a part that is written out wherever it is used."""
_DEEPEST = 50
"""Parts within parts that are written out: Python's parser takes some two hundred brackets."""
_SHOWN = 40
"""Nodes that a message shows of an expression."""


def printed(program: Program) -> str:
    """The text of a program."""
    arguments = [*(f"{size}: size" for size in program.sizes), *map(_argument, program.arguments)]
    lines = [f"def {program.name}({', '.join(arguments)}):"]
    for table in program.tables:
        kind = f"{table.type}[{', '.join(map(str, table.extents))}]"
        lines.append(f"{_STEP}{table.name}: {kind} = {list(table.elements)}")
    taken = names_in(program)
    for stage in program.stages:
        lines += [f"{_STEP}{line}" for line in _stage(stage, taken)]
    return "\n".join([*lines, f"{_STEP}return {', '.join(program.outputs)}", ""])


def text_of(expression: Expr) -> str:
    """The text of one expression, for messages: what is long in it is left out."""
    return _Text([expression], None, most=_SHOWN).of(expression, None)


def _whole(expression: Expr) -> str:
    return _Text([expression], None).of(expression, None)


def _argument(one: Scalar | Buffer) -> str:
    kind = str(one.type)
    if (one.low, one.high) != (one.type.low, one.type.high):
        kind += f"({one.low}, {one.high})"
    if isinstance(one, Scalar):
        return f"{one.name}: {kind}"
    axes = []
    for axis in one.axes:
        ends = tuple(map(_whole, axis))
        axes.append("..." if not ends else ends[1] if ends[0] == "0" else ":".join(ends))
    return f"{one.name}: {kind}[{', '.join(axes) or '()'}]"


def _stage(stage: Stage, taken: Collection[str]) -> Iterator[str]:
    yield from _nest(stage.axes, _body(stage, Update((), stage.places, stage.values), taken, None))
    for update in stage.updates:
        yield from _nest(update.loops, _body(stage, update, taken, stage.types))


def _nest(loops: Sequence[Loop], body: Sequence[str]) -> Iterator[str]:
    for depth, loop in enumerate(loops):
        yield f"{_STEP * depth}for {loop.name} in {_range(loop)}:"
    yield from (f"{_STEP * len(loops)}{line}" for line in body)


def _range(loop: Loop) -> str:
    if not loop.bounds:
        return "..."
    begin, end = map(_whole, loop.bounds)
    return f"range({end})" if begin == "0" else f"range({begin}, {end})"


def _body(
    stage: Stage, update: Update, taken: Collection[str], types: Sequence[Type] | None
) -> list[str]:
    """The innermost loop's; ``types`` are those of the arrays if they are known."""
    text = _Text(update.expressions, taken)
    lines = list(text.names())
    places = ", ".join(text.of(place, INDEX) for place in update.places) or "()"
    targets = ", ".join(f"{array}[{places}]" for array in stage.arrays)
    stored = f"{targets} = {_values(text, update.values, types)}"
    if len(update.values) == 1 and isinstance(value := update.values[0], Binary):
        adds = value.operator == "+" and value not in text.named
        if types and adds and value.left is stage.at(*update.places):
            stored = f"{targets} += {text.of(value.right, value.type)}"
    if update.condition is None:
        return [*lines, stored]
    return [*lines, f"if {text.of(update.condition, BOOL)}:", _STEP + stored]


def _values(text: _Text, values: Sequence[Expr], types: Sequence[Type] | None) -> str:
    known: Sequence[Type | None] = types or [None] * len(values)
    return ", ".join(text.of(one, kind) for one, kind in zip(values, known, strict=True))


class _Text:
    """The texts of expressions that share parts."""

    def __init__(
        self, roots: Sequence[Expr], taken: Collection[str] | None, most: float = inf
    ) -> None:
        self.named: dict[Expr, str] = {}
        self._known: dict[Expr, tuple[str, int]] = {}
        self._lines: list[str] = []
        uses = Counter(part for node in ordered(roots) for part in node.parts) + Counter(roots)
        free = (name for number in count() if (name := f"t{number}") not in (taken or ()))
        sizes: dict[Expr, int] = {}
        depths: dict[Expr, int] = {}
        for node in ordered(roots):
            sizes[node] = 1 + sum(sizes[part] for part in node.parts)
            depths[node] = 1 + max((depths[part] for part in node.parts), default=0)
            self._known[node] = self._made(node) if sizes[node] <= most else ("...", _ATOM)
            is_shared = uses[node] > 1 and sizes[node] > _UNNAMED
            if taken is not None and (is_shared or depths[node] > _DEEPEST):
                name = self.named[node] = next(free)
                self._lines.append(f"{name} = {self.of(node, None)}")
                self._known[node] = name, _ATOM
                sizes[node] = depths[node] = 1

    def names(self) -> Iterator[str]:
        """The lines that give names."""
        yield from self._lines

    def of(self, node: Expr, expected: Type | None, above: int = _LOWEST) -> str:
        """The text of ``node`` where a number would be of the type ``expected``, within an operator
        of that precedence."""
        if isinstance(node, Constant):
            if node.type == BOOL:
                return str(bool(node.value))
            if node.type == (expected or INDEX):
                return str(node.value)
            return f"{node.type}({node.value})"
        text, own = self._known[node]
        return f"({text})" if own < above else text

    def _made(self, node: Expr) -> tuple[str, int]:
        if isinstance(node, Variable):
            return node.name, _ATOM
        if isinstance(node, Load):
            indices = ", ".join(self.of(index, INDEX) for index in node.indices)
            return f"{node.source}[{indices or '()'}]", _ATOM
        if isinstance(node, Cast):
            # A number in brackets would be taken for one of that type.
            kind = None if node.saturates or not isinstance(node.operand, Constant) else BOOL
            operand = self.of(node.operand, kind)
            return f"{node.type}{'_sat' * node.saturates}({operand})", _ATOM
        if isinstance(node, Unary):
            if node.operator == "~":
                return f"~{self.of(node.operand, None, _ATOM)}", _ATOM
            return f"{node.operator}({self.of(node.operand, None)})", _ATOM
        if isinstance(node, Select):
            parts = [self.of(node.condition, BOOL), *self._pair(node.chosen, node.otherwise)]
            return f"select({', '.join(parts)})", _ATOM
        if isinstance(node, Binary):
            return self._binary(node)
        return str(node), _ATOM  # a constant, which depends on what stands beside it

    def _binary(self, node: Binary) -> tuple[str, int]:
        by, own = node.operator, _PRECEDENCE.get(node.operator)
        if own is None:
            return f"{by}({', '.join(self._pair(node.left, node.right))})", _ATOM
        left, right = self._pair(node.left, node.right, own + (own == 1), own + 1)
        return f"{left} {by} {right}", own

    def _pair(
        self, left: Expr, right: Expr, within: int = _LOWEST, then: int = _LOWEST
    ) -> tuple[str, str]:
        """Two parts of one type: a number beside what is none needs no type."""
        both = isinstance(left, Constant) and isinstance(right, Constant)
        return (
            self.of(left, None if both else right.type, within),
            self.of(right, None if both else left.type, then),
        )
