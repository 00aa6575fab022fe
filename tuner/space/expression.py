"""Conditions over knobs, as text that can be stored, shown and checked, but not executed.

The language is the arithmetic, comparison and boolean part of Python expressions over integers,
strings and the names of knobs and constants. Anything else (calls, attributes, subscripts) is
refused when the expression is read, so a space that comes from a file is safe to load.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType

from tuner.errors import UserError

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
        tree = ast.parse(text, mode="eval")
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
    """The condition ``text``; the same object for the same text, because a space made anew for
    each of many problems has mostly the same conditions."""
    return Expression(text)
