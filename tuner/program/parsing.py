"""Programs from text, as `printing` writes it.

The syntax is Python's, so Python's own parser reads it; what it means is said here. A name that is
given inside a loop stands for its expression, and ``for y, x in range(height), range(width)`` for
a loop within another.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, cast

from tuner.program.expressions import (
    Binary,
    BinaryOperator,
    Cast,
    Constant,
    Expr,
    Load,
    ProgramError,
    Select,
    Unary,
    UnaryOperator,
    Variable,
)
from tuner.program.loops import Buffer, Loop, Program, Scalar, Stage, Table, Update
from tuner.program.types import BOOL, INDEX, Type

_OPERATORS: Mapping[type[ast.AST], BinaryOperator] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_PAIRS = ("min", "max", "absd")
_SINGLES = ("abs", "popcount", "clz", "ctz")
_SATURATES = "_sat"


def parsed(text: str, numbers: Mapping[str, int] | None = None) -> Program:
    """The program that ``text`` means, in which ``numbers`` have names; :class:`ProgramError` names
    the line that means none."""
    try:
        (definition,) = ast.parse(text).body
        return _Parser().program(_Numbered(numbers or {}).visit(definition))
    except SyntaxError as error:
        raise ProgramError(f"line {error.lineno}: {error.msg}") from None
    except ValueError:
        raise ProgramError("the text is not one program") from None
    except (RecursionError, MemoryError):
        raise ProgramError("the text nests too deep") from None


def _refused(node: ast.AST, accepted: str) -> NoReturn:
    line = getattr(node, "lineno", 0)
    raise ProgramError(f"line {line}: {ast.unparse(node)[:80]!r}", accepted=accepted)


class _Numbered(ast.NodeTransformer):
    """Writes numbers in place of their names."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers

    def visit_arg(self, node: ast.arg) -> ast.AST:
        # A name alone is a type, or ``size``.
        return node if isinstance(node.annotation, ast.Name) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._numbers:
            return node
        return ast.copy_location(ast.Constant(self._numbers[node.id]), node)


@dataclass
class _Parser:
    """What is known of a program as its text is read."""

    variables: dict[str, Expr] = field(default_factory=dict)
    """Sizes, scalars, indices, and names given to expressions."""
    sources: dict[str, Type] = field(default_factory=dict)
    """The element types of buffers, tables and arrays."""
    stages: list[Stage] = field(default_factory=list)

    def program(self, node: ast.stmt) -> Program:
        if not isinstance(node, ast.FunctionDef):
            _refused(node, "def NAME(ARGUMENTS):")
        sizes, arguments = [], []
        for argument in node.args.args:
            kind = argument.annotation
            if isinstance(kind, ast.Name) and kind.id == "size":
                sizes.append(argument.arg)
                self.variables[argument.arg] = Variable(argument.arg)
            else:
                arguments.append(self._argument(argument))
        tables: list[Table] = []
        outputs: list[str] = []
        for line in node.body:
            if outputs:
                _refused(line, "nothing after return")
            if isinstance(line, ast.AnnAssign):
                tables.append(self._table(line))
            elif isinstance(line, ast.Return) and line.value is not None:
                outputs = [self._name(one) for one in _elements(line.value)]
            else:
                self._nest(line, [])
        stages = tuple(self.stages)
        return Program(
            node.name, tuple(sizes), tuple(arguments), tuple(tables), stages, tuple(outputs)
        )

    def _argument(self, argument: ast.arg) -> Scalar | Buffer:
        name, kind = argument.arg, argument.annotation
        axes = None
        if isinstance(kind, ast.Subscript):
            axes = tuple(map(self._axis, _elements(kind.slice)))
            kind = kind.value
        limits: tuple[int, ...] = ()
        if isinstance(kind, ast.Call) and len(kind.args) == 2:
            limits = tuple(map(self._number, kind.args))
            kind = kind.func
        own = Type.named(kind.id) if isinstance(kind, ast.Name) else None
        if own is None:
            _refused(argument, "NAME: size, NAME: u8 and NAME: u8[HEIGHT, WIDTH]; types i8 to u64")
        low, high = limits or (own.low, own.high)
        if axes is None:
            self.variables[name] = Variable(name, own)
            return Scalar(name, own, low, high)
        self.sources[name] = own
        return Buffer(name, own, axes, low, high)

    def _axis(self, node: ast.expr) -> tuple[Expr, ...]:
        if isinstance(node, ast.Constant) and node.value is ...:
            return ()
        if not isinstance(node, ast.Slice):
            return Constant(0, INDEX), self._of(node, INDEX)
        if node.lower is None or node.upper is None or node.step is not None:
            _refused(node, "BEGIN:END")
        return self._of(node.lower, INDEX), self._of(node.upper, INDEX)

    def _table(self, node: ast.AnnAssign) -> Table:
        kind, elements = node.annotation, node.value
        if isinstance(kind, ast.Subscript) and isinstance(elements, ast.List):
            own = Type.named(self._name(kind.value))
            if own is not None:
                name = self._name(node.target)
                self.sources[name] = own
                extents = tuple(map(self._number, _elements(kind.slice)))
                return Table(name, own, extents, tuple(map(self._number, elements.elts)))
        _refused(node, "NAME: u8[3] = [1, 2, 1]")

    def _nest(self, node: ast.stmt, loops: list[Loop]) -> None:
        """Loops down to what they store."""
        if not isinstance(node, ast.For):
            self._stored([node], loops)
            return
        known = dict(self.variables)
        names, ranges = _elements(node.target), _elements(node.iter)
        if len(ranges) not in (1, len(names)):
            _refused(node.iter, "a range for each name, or one for all")
        inner = list(loops)
        for number, name in enumerate(names):
            loop = self._loop(self._name(name), ranges[number % len(ranges)])
            self.variables[loop.name] = loop.index
            inner.append(loop)
        if len(node.body) == 1:
            self._nest(node.body[0], inner)
        else:
            self._stored(node.body, inner)
        self.variables = known

    def _loop(self, name: str, over: ast.expr) -> Loop:
        if isinstance(over, ast.Constant) and over.value is ...:
            return Loop(name)
        is_range = isinstance(over, ast.Call) and ast.unparse(over.func) == "range"
        if isinstance(over, ast.Call) and is_range and 1 <= len(over.args) <= 2:
            bounds = [self._of(one, INDEX) for one in over.args]
            return Loop(name, bounds[0] if bounds[1:] else Constant(0, INDEX), bounds[-1])
        _refused(over, "range(END), range(BEGIN, END) and ...")

    def _stored(self, lines: Sequence[ast.stmt], loops: list[Loop]) -> None:
        *names, last = lines
        known = dict(self.variables)
        for line in names:
            if not isinstance(line, ast.Assign) or len(line.targets) != 1:
                _refused(line, "NAME = EXPRESSION, before what is stored")
            self.variables[self._name(line.targets[0])] = self._of(line.value, None)
        condition = None
        if isinstance(last, ast.If) and len(last.body) == 1 and not last.orelse:
            condition, last = self._of(last.test, BOOL), last.body[0]
        targets: Sequence[ast.expr]
        values: Sequence[ast.expr]
        if isinstance(last, ast.AugAssign):
            targets, values = [last.target], [_joined(last)]
        elif isinstance(last, ast.Assign) and len(last.targets) == 1:
            targets, values = _elements(last.targets[0]), _elements(last.value)
        else:
            _refused(last, "ARRAY[PLACES] = EXPRESSION")
        self._define(targets, values, condition, loops)
        self.variables = known

    def _define(
        self,
        targets: Sequence[ast.expr],
        values: Sequence[ast.expr],
        condition: Expr | None,
        loops: Sequence[Loop],
    ) -> None:
        stores = [one for one in targets if isinstance(one, ast.Subscript)]
        slices = {ast.unparse(one.slice) for one in stores}
        if len(stores) != len(targets) or len(targets) != len(values) or len(slices) != 1:
            _refused(targets[0], "arrays, all at the same place")
        arrays = tuple(self._name(one.value) for one in stores)
        places = tuple(self._of(one, INDEX) for one in _elements(stores[0].slice))
        if arrays[0] in self.sources:
            stage = self.stages[-1] if self.stages else None
            if stage is None or stage.arrays != arrays:
                _refused(targets[0], "updates of the stage that was defined last")
            made = [self._of(v, kind) for v, kind in zip(values, stage.types, strict=True)]
            update = Update(tuple(loops), places, tuple(made), condition)
            self.stages[-1] = replace(stage, updates=(*stage.updates, update))
            return
        if places != tuple(loop.index for loop in loops) or condition is not None:
            _refused(targets[0], "a definition at the indices of its loops, without a condition")
        made = [self._of(value, None) for value in values]
        self.stages.append(Stage(arrays, tuple(loops), tuple(made)))
        self.sources |= {name: value.type for name, value in zip(arrays, made, strict=True)}

    def _name(self, node: ast.expr) -> str:
        if not isinstance(node, ast.Name):
            _refused(node, "a name")
        return node.id

    def _number(self, node: ast.expr) -> int:
        found = _literal(node)
        return found if found is not None else _refused(node, "a number")

    def _of(self, node: ast.expr, expected: Type | None) -> Expr:
        """The expression of ``node``, where a number is of the type ``expected``."""
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return Constant(int(node.value), BOOL)
        if (value := _literal(node)) is not None:
            return Constant(value, expected or INDEX)
        if isinstance(node, ast.Name) and node.id in self.variables:
            return self.variables[node.id]
        if isinstance(node, ast.Subscript):
            return self._load(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return Unary("~", self._of(node.operand, None))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return Binary(_OPERATORS[type(node.op)], *self._pair(node.left, node.right))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
            pair = self._pair(node.left, node.comparators[0])
            return Binary(_OPERATORS[type(node.ops[0])], *pair)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node, node.func.id)
        _refused(node, "numbers, names, elements, + - * // % << >> & | ^ ~, comparisons and calls")

    def _load(self, node: ast.Subscript) -> Expr:
        name = self._name(node.value)
        if name not in self.sources:
            _refused(node, f"one of {', '.join(self.sources) or 'no buffers'}")
        indices = tuple(self._of(one, INDEX) for one in _elements(node.slice))
        return Load(name, indices, self.sources[name])

    def _call(self, node: ast.Call, name: str) -> Expr:
        arguments = node.args
        kind = Type.named(name.removesuffix(_SATURATES))
        if kind is not None and len(arguments) == 1:
            value = _literal(arguments[0])
            if value is not None and not name.endswith(_SATURATES):
                return Constant(value, kind)
            return Cast(kind, self._of(arguments[0], None), name.endswith(_SATURATES))
        if name in _PAIRS and len(arguments) == 2:
            return Binary(cast("BinaryOperator", name), *self._pair(*arguments))
        if name in _SINGLES and len(arguments) == 1:
            return Unary(cast("UnaryOperator", name), self._of(arguments[0], None))
        if name == "select" and len(arguments) == 3:
            return Select(self._of(arguments[0], BOOL), *self._pair(*arguments[1:]))
        _refused(node, f"u8(A) to i64(A), u8_sat(A), {', '.join((*_PAIRS, *_SINGLES))}, select")

    def _pair(self, left: ast.expr, right: ast.expr) -> tuple[Expr, Expr]:
        """Two parts of one type: a number has that of the other."""
        if _literal(left) is not None and _literal(right) is None:
            other = self._of(right, None)
            return self._of(left, other.type), other
        first = self._of(left, None)
        return first, self._of(right, None if _literal(left) is not None else first.type)


def _joined(node: ast.AugAssign) -> ast.expr:
    """What ``A += B`` stores in ``A``."""
    return ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)


def _literal(node: ast.expr) -> int | None:
    """The value of a number, with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = _literal(node.operand)
        return None if found is None else -found
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def _elements(node: ast.expr) -> Sequence[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]
