"""Arithmetic of packages: shapes as expressions of parameters, and constraints of knobs.

The language is a small part of Python's, read as a tree and walked: integers, strings, names,
``+``, ``-``, ``*``, ``//``, ``%``, ``min``, ``max``, brackets, and in constraints comparisons,
``and``, ``or`` and ``not``. Nothing is ever evaluated as Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tuner.errors import UserError
from tuner.space.syntax import parse_expression, parse_module

_MOST_CHARACTERS = 500
_MOST_VALUE = 1 << 40
"""Far above any extent; a product of products stays a number that is quick to work with."""
Value = int | str
_ACCEPTED = "integers, names, + - * // % ( ), min(a, b), max(a, b)"
_ACCEPTED_CONDITION = f"{_ACCEPTED}, comparisons, and, or, not"

_BINARY: Mapping[type, tuple[str, Callable[[int, int], int]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.FloorDiv: ("/", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
"""By node: how C writes it, and what it does. C's quotients are Python's where nothing is negative,
as extents are not."""
_COMPARISONS: Mapping[type, tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_CHOICES: Mapping[str, tuple[type[ast.cmpop], Callable[[int, int], int]]] = {
    "min": (ast.Lt, min),
    "max": (ast.Gt, max),
}


class Arithmetic:
    """An expression, read once. ``names`` are those it depends on.

    ``is_condition`` accepts comparisons and their connectives. Raises ``UserError`` that names the
    expression and what is accepted for anything else.
    """

    def __init__(self, text: str, *, is_condition: bool = False) -> None:
        self.text = text
        self._accepted = _ACCEPTED_CONDITION if is_condition else _ACCEPTED
        if len(text) > _MOST_CHARACTERS:
            raise self._refused(f"has {len(text)} characters", f"at most {_MOST_CHARACTERS}")
        try:
            self._tree = parse_expression(text.strip()).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._refused("cannot be read") from None
        if is_condition != _is_condition(self._tree):
            what = "no condition" if is_condition else "a condition, where a number is wanted"
            raise self._refused(f"is {what}")
        self._require(self._tree)
        self.names = frozenset(
            node.id
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and node.id not in _CHOICES
        )

    def _refused(self, why: str, accepted: str = "") -> UserError:
        shown = self.text if len(self.text) <= 80 else f"{self.text[:77]}..."
        return UserError(f"'{shown}' {why}", accepted=accepted or self._accepted)

    def _require(self, node: ast.expr) -> None:
        for part in self._parts(node):
            self._require(part)

    def _parts(self, node: ast.expr) -> list[ast.expr]:
        match node:
            case ast.Constant(value=value) if type(value) is int and abs(value) <= _MOST_VALUE:
                return []
            case ast.Constant(value=str()) | ast.Name():
                return []
            case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
                return [operand]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return [left, right]
            case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if (
                name in _CHOICES
            ):
                return [left, right]
            case ast.BoolOp(values=values):
                return values
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _COMPARISONS for op in ops
            ):
                return [left, *others]
        raise self._refused(f"uses {ast.unparse(node)[:40]}")

    def value(self, names: Mapping[str, Value]) -> Any:
        """The value with these ``names``; ``UserError`` for a division by zero, an unknown name or
        a value beyond all bounds."""
        try:
            return self._value(self._tree, names)
        except ZeroDivisionError:
            raise self._refused("divides by zero") from None
        except TypeError:
            raise self._refused("mixes numbers and strings") from None
        except KeyError as error:
            raise self._refused(
                f"names {error.args[0]}, which is not known", ", ".join(names)
            ) from None

    def _value(self, node: ast.expr, names: Mapping[str, Value]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return names[name]
            case ast.UnaryOp(op=op, operand=operand):
                inner = self._value(operand, names)
                return -inner if isinstance(op, ast.USub) else not inner
            case ast.BinOp(left=left, op=op, right=right):
                made = _BINARY[type(op)][1](self._value(left, names), self._value(right, names))
                if not isinstance(made, int):
                    raise TypeError
                if abs(made) > _MOST_VALUE:
                    raise self._refused("is too large")
                return made
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                return _CHOICES[name][1](self._value(left, names), self._value(right, names))
            case ast.BoolOp(op=op, values=values):
                every = isinstance(op, ast.And)
                return (all if every else any)(self._value(one, names) for one in values)
            case ast.Compare(left=left, ops=ops, comparators=others):
                before = self._value(left, names)
                for comparison, other in zip(ops, others, strict=True):
                    after = self._value(other, names)
                    if not _COMPARISONS[type(comparison)][1](before, after):
                        return False
                    before = after
                return True
        raise TypeError

    def in_c(self, names: Mapping[str, Value]) -> str:
        """The expression in C, with ``names`` put in; those that are not among them keep their
        names. For values of extents, which are not negative."""
        return self._in_c(self._tree, names)

    def _in_c(self, node: ast.expr, names: Mapping[str, Value]) -> str:
        known = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - set(_CHOICES)
        if known <= names.keys():
            return str(int(self._value(node, names)))
        match node:
            case ast.Name(id=name):
                return name
            case ast.UnaryOp(op=op, operand=operand):
                sign = "-" if isinstance(op, ast.USub) else "!"
                return f"({sign}{self._in_c(operand, names)})"
            case ast.BinOp(left=left, op=op, right=right):
                sign = _BINARY[type(op)][0]
                return f"({self._in_c(left, names)} {sign} {self._in_c(right, names)})"
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                a, b = self._in_c(left, names), self._in_c(right, names)
                return f"({a} {_COMPARISONS[_CHOICES[name][0]][0]} {b} ? {a} : {b})"
            case ast.BoolOp(op=op, values=values):
                sign = " && " if isinstance(op, ast.And) else " || "
                return f"({sign.join(self._in_c(one, names) for one in values)})"
            case ast.Compare(left=left, ops=ops, comparators=others):
                texts = [self._in_c(one, names) for one in (left, *others)]
                signs = [_COMPARISONS[type(one)][0] for one in ops]
                pairs = zip(texts, signs, texts[1:], strict=False)
                return f"({' && '.join(' '.join(pair) for pair in pairs)})"
        raise TypeError

    @property
    def plain(self) -> str:
        """The same in the language of :mod:`tuner.space.expression`, which has no calls."""
        return ast.unparse(
            ast.fix_missing_locations(_WithoutCalls().visit(parse_module(self.text)))
        )


class _WithoutCalls(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        left, right = node.args
        compared = _CHOICES[ast.unparse(node.func)][0]()
        return ast.IfExp(ast.Compare(left, [compared], [right]), left, right)


def _is_condition(node: ast.expr) -> bool:
    is_negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_negation or isinstance(node, ast.BoolOp | ast.Compare)


@lru_cache(maxsize=1024)
def arithmetic(text: str) -> Arithmetic:
    """The expression ``text`` for a number: read once."""
    return Arithmetic(text)


@lru_cache(maxsize=1024)
def condition(text: str) -> Arithmetic:
    """The expression ``text`` for a condition: read once."""
    return Arithmetic(text, is_condition=True)
