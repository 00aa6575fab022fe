"""Conditions over knobs, as text that can be stored, shown and checked, but not executed.

The language is the arithmetic, comparison and boolean part of Python expressions over integers,
strings and the names of knobs and constants; dots are part of names. Anything else (calls,
subscripts) is refused when the expression is read: a space that comes from a file is safe to load.

Evaluating conditions one by one costs an ``eval`` each, and a service that checks every config
before it hands it out does that thousands of times a second. :func:`compile_check` turns all
conditions of a space into the body of one function, which takes a tenth of the time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from tuner.errors import UserError
from tuner.space.syntax import parse_expression

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
    ast.Tuple, ast.IfExp, ast.Name, ast.Load, ast.Constant,
)  # fmt: skip
_MAX_LENGTH = 1000
_NO_BUILTINS: dict[str, object] = {"__builtins__": {}}


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[CodeType, frozenset[str]]:
    if len(text) > _MAX_LENGTH:
        raise UserError(
            f"expression of {len(text)} characters is too long",
            accepted=f"at most {_MAX_LENGTH} characters",
        )
    try:
        tree = _Dotted().visit(parse_expression(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(
            f"expression '{text}' cannot be read", accepted="a comparison of knobs and numbers"
        ) from None
    names = set()
    for node in ast.walk(tree):
        constant_ok = not isinstance(node, ast.Constant) or type(node.value) in (int, str)
        if not isinstance(node, _ALLOWED) or not constant_ok:
            raise UserError(
                f"expression '{text}' uses {type(node).__name__}",
                accepted="integers, strings, names, + - * // %, comparisons, and/or/not/in/if",
            )
        if isinstance(node, ast.Name):
            names.add(node.id)
    return compile(tree, f"<{text}>", "eval"), frozenset(names)


class _Dotted(ast.NodeTransformer):
    """Takes ``a.b`` for one name: that of a knob, of which nothing has attributes."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        owner = self.visit(node.value)
        if not isinstance(owner, ast.Name):
            return node
        return ast.copy_location(ast.Name(f"{owner.id}.{node.attr}", ast.Load()), node)


class Expression:
    """A condition, read and checked once. ``text`` is what is stored."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._code, self.names = _parse(text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return (Expression, (self.text,))

    def holds(self, values: Mapping[str, int | str]) -> bool:
        """Whether the condition is true. ``values`` must have all of ``names``.

        A division by zero makes the condition false: such a point is not wanted either.
        """
        try:
            return bool(eval(self._code, _NO_BUILTINS, values))  # noqa: S307 - whitelisted nodes
        except ZeroDivisionError:
            return False


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """The condition ``text``; the same object for the same text, because the spaces of many
    problems have mostly the same conditions."""
    return Expression(text)


Check = Callable[[Any, Mapping[str, Any], Sequence[Sequence[Any]]], bool]
"""Takes values, the constants and the choices of each knob: true only for values that are a config.
False may also mean that a condition divides by zero: the caller has to look closer."""

_INDENT = " " * 8


def compile_check(
    knobs: Sequence[tuple[str, Expression | None]], constraints: Iterable[Expression]
) -> Check:
    """The check of spaces with these knobs (name and condition, in order) and constraints.

    Only names made here, literals and the operators of ``_ALLOWED`` get into the text that is
    compiled.
    """
    maker = _Maker(knobs)
    for position, (name, condition) in enumerate(knobs):
        maker.knob(position, name, condition)
    for constraint in constraints:
        maker.constraint(constraint)
    made: dict[str, Any] = {}
    exec(compile(maker.text(), "<space>", "exec"), {"__builtins__": _BUILTINS}, made)  # noqa: S102
    check: Check = made["check"]
    return check


_BUILTINS = {
    "bool": bool,
    "len": len,
    "KeyError": KeyError,
    "TypeError": TypeError,
    "ZeroDivisionError": ZeroDivisionError,
}


class _Maker:
    """Writes the function. ``k_N`` is the value of knob N, ``a_N`` whether it is active,
    ``c_N`` a constant."""

    def __init__(self, knobs: Sequence[tuple[str, Expression | None]]) -> None:
        self._positions = {name: position for position, (name, _) in enumerate(knobs)}
        self._conditional = {p for p, (_, condition) in enumerate(knobs) if condition is not None}
        self._lines: list[str] = []
        self._constants: dict[str, str] = {}

    def knob(self, position: int, name: str, condition: Expression | None) -> None:
        """It has a value, one of its choices, if and only if it is active."""
        indent = _INDENT
        if condition is not None:
            self._lines.append(f"{indent}a_{position} = {self._guarded('and', condition)}")
            self._lines.append(f"{indent}if a_{position}:")
            indent += "    "
            self._lines.append(f"{indent}active += 1")
        value = f"k_{position}"
        self._lines += [
            f"{indent}{value} = values[{name!r}]",
            f"{indent}if {value} not in choices[{position}] or {value}.__class__ is bool:",
            f"{indent}    return False",
        ]

    def constraint(self, constraint: Expression) -> None:
        """It holds where all knobs that it names are active."""
        guard = self._guarded("and not", constraint)
        self._lines += [f"{_INDENT}if {guard}:", f"{_INDENT}    return False"]

    def text(self) -> str:
        """The whole function."""
        constants = [
            f"{_INDENT}{ours} = constants[{name!r}]" for name, ours in self._constants.items()
        ]
        always = len(self._positions) - len(self._conditional)
        return "\n".join(
            [
                "def check(values, constants, choices):",
                "    try:",
                *constants,
                f"{_INDENT}active = {always}",
                *self._lines,
                f"{_INDENT}return active == len(values)",  # and there are no others
                "    except (KeyError, TypeError, ZeroDivisionError):",
                f"{_INDENT}return False",
                "",
            ]
        )

    def _guarded(self, joint: str, condition: Expression) -> str:
        """``condition``, read only where the conditional knobs it names are active."""
        named = {self._positions[n] for n in condition.names if n in self._positions}
        guards = [f"a_{position}" for position in sorted(named & self._conditional)]
        return f"{' and '.join(guards) or 'True'} {joint} ({self._renamed(condition)})"

    def _renamed(self, condition: Expression) -> str:
        tree = _Dotted().visit(parse_expression(condition.text))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                position = self._positions.get(node.id)
                if position is None:
                    node.id = self._constants.setdefault(node.id, f"c_{len(self._constants)}")
                else:
                    node.id = f"k_{position}"
        return ast.unparse(tree)
